"""Read-ahead of records: the next ones are read while those before are applied."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.storage.replication.engine import Engine

AHEAD_BYTES: Final = 32 << 20
"""Bytes of records that are read together; as many are read ahead."""
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

    at_once: int
    """Requests with which to begin to read the next ones."""


class ReadAhead:
    """Records of an engine in the order of their positions. For one thread.

    Its threads end at the end of the journal, and with ``close``.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._threads: ThreadPoolExecutor | None = None
        self._next: tuple[int, Future[Records]] | None = None
        """Position from which on records are read ahead, and these."""

    def read(self, position: int) -> Records:
        """Return the records from a position on, about ``AHEAD_BYTES``, up to the first missing one.

        What is after a missing one does not count. Raises ``EngineAway``, also where the engine answers again by now:
        the time without an answer is no silence of an owner.
        """
        ahead = self._take(position)
        found = ahead or self._read(position, 1, self._pool)
        if not found.met_end:
            pool, begin = self._pool(), position + len(found.data)
            self._next = begin, pool.submit(self._read, begin, found.at_once, lambda: pool)
        elif ahead is None:
            self.close()
        else:  # a record may have been appended since then
            found = replace(found, met_end=False)
        return found

    def close(self) -> None:
        """End the threads, without a wait for a request that has no answer yet."""
        self._next = None
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    def _take(self, position: int) -> Records | None:
        """Return what was read ahead from a position on, if that is anything. Raises ``EngineAway``."""
        if self._next is None:
            return None
        (begin, future), self._next = self._next, None
        wait([future])
        if begin != position:
            return None
        found = future.result()
        return found if found.data else None

    def _read(self, position: int, at_once: int, pool: Callable[[], ThreadPoolExecutor]) -> Records:
        records: list[bytes] = []
        size, largest, count, met_end = 0, 1, at_once, False
        while count and not met_end:
            begin = position + len(records)
            read = map if count == 1 else pool().map
            for record in read(self._engine.read, range(begin, begin + count)):
                if record is None:
                    met_end = True
                    break
                records.append(record)
                size, largest = size + len(record), max(largest, len(record))
            room = min(AHEAD_RECORDS - len(records), -((size - AHEAD_BYTES) // largest))
            count = max(0, min(2 * count, READS_AT_ONCE, room))
        return Records(records, size, met_end, max(1, min(READS_AT_ONCE, AHEAD_RECORDS, AHEAD_BYTES // largest)))

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(READS_AT_ONCE + 1, thread_name_prefix="forebay-reader")
        return self._threads
