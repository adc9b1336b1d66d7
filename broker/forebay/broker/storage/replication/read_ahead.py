"""Read-ahead of records: the next ones are read while those before are applied."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.replication.engine import Engine, EngineAway

AHEAD_BYTES: Final = 52 << 20
"""Bytes of records that are read ahead: six of an owner's largest. As many are returned at once."""
AHEAD_RECORDS: Final = 256
READS_AT_ONCE: Final = 8
"""Requests for records in flight, once there is more than one to read: each takes a round trip."""


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records."""

    data: list[bytes]
    size: int
    """Bytes of all of them."""

    met_end: bool
    """True if the position after them had no record when it was read, after the call began."""


class ReadAhead:
    """Records of an engine in the order of their positions. For one thread.

    Its threads end at the end of the journal, and with ``close``.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._requests: _Requests | None = None

    def read(self, position: int) -> Records:
        """Return the records from a position on, up to the first missing one; one at least, if there is one.

        These are the ones that are read already, up to ``AHEAD_BYTES``. What is after a missing one does not count.

        Raises ``EngineAway``, also where the engine answers again by now: the time without an answer is no silence of
        an owner.
        """
        if self._requests is not None and self._requests.next == position:
            found = self._take(self._requests)
            if found.data or found.met_end:
                return found
        self.close()
        record = self._engine.read(position)
        if record is None:
            return Records([], 0, met_end=True)
        self._requests = _Requests(self._engine, position, record)
        return self._take(self._requests)

    def _take(self, requests: _Requests) -> Records:
        try:
            found = requests.take()
        except EngineAway:
            self.close()
            raise
        if found.met_end:
            self.close()
        return found

    def close(self) -> None:
        """End the threads, without a wait for a request that has no answer yet."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None


class _Requests:
    """Requests for consecutive positions, the first of which has a record.

    One more is in flight for each record that was read, up to ``READS_AT_ONCE``, and none is added after a missing
    record or a failure.
    """

    def __init__(self, engine: Engine, position: int, record: bytes) -> None:
        """Begin with a record that was read."""
        self._engine: Final = engine
        self._threads: Final = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="forebay-reader")
        self._lock: Final = threading.Lock()
        first: Future[bytes | None] = Future()
        first.set_result(record)
        self._waiting: Final = deque([first])
        """Requests whose record was not taken, in the order of their positions."""
        self.next = position
        """Position of the first of them."""
        self._bytes = self._largest = len(record)
        """Bytes of the records that were not taken, and those of the largest one so far."""
        self._in_flight = 0
        self._at_once = 2
        self._is_over = False

    def take(self) -> Records:
        """Return what is read already, one record at least unless there is none; see ``ReadAhead.read``.

        As long as less than ``READS_AT_ONCE`` may be in flight it waits for further ones, since the end is probably
        near. None, and no end, means that the next position had no record before this call.
        """
        records: list[bytes] = []
        size = 0
        with self._lock:
            begun_before = len(self._waiting)
            self._add()
        while size < AHEAD_BYTES and len(records) < AHEAD_RECORDS:
            request = self._waiting[0]
            if records and self._at_once == READS_AT_ONCE and not request.done():
                break
            if records and request.exception() is not None:
                break
            record = request.result()
            if record is None:
                return Records(records, size, met_end=len(records) >= begun_before)
            records.append(record)
            size += len(record)
            with self._lock:
                self._waiting.popleft()
                self.next += 1
                self._bytes -= len(record)
                self._add()
        return Records(records, size, met_end=False)

    def close(self) -> None:
        """See ``ReadAhead.close``."""
        with self._lock:
            self._is_over = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _read(self, position: int) -> bytes | None:
        record: bytes | None = None
        try:
            record = self._engine.read(position)
        finally:
            with self._lock:
                self._in_flight -= 1
                if record is None:
                    self._is_over = True
                else:
                    self._bytes += len(record)
                    self._largest = max(self._largest, len(record))
                    self._at_once = min(self._at_once + 1, READS_AT_ONCE)
                self._add()
        return record

    def _add(self) -> None:
        """Begin as many requests as there is room for, with the lock."""
        while not self._is_over and self._in_flight < self._at_once and self._has_room():
            self._in_flight += 1
            self._waiting.append(self._threads.submit(self._read, self.next + len(self._waiting)))

    def _has_room(self) -> bool:
        if not self._waiting:
            return True
        expected = self._bytes + (self._in_flight + 1) * self._largest
        return len(self._waiting) < AHEAD_RECORDS and expected <= AHEAD_BYTES
