"""Reader of a journal whose begin is trimmed.

A record counts as read only if the horizon, looked up after the read, is at or below the first position of the read.
Below the horizon positions are missing, and a former owner may have created some of them again: whatever was read there
proves nothing. Such a reader raises ``Trimmed``, and begins again with the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, NamedTuple

from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import History, ReaderPosition
from forebay.broker.storage.replication.record import Header, decode

AHEAD_BYTES: Final = 32 << 20
"""Bytes of records that are read before the horizon is looked up.

A reader that is behind has twice as many in memory: the next ones are read while these are taken.
"""
AHEAD_RECORDS: Final = 256
READS_AT_ONCE: Final = 8
"""Requests for records in flight, once there is more than one to read: each takes a round trip."""


class Trimmed(Exception):
    """The records from a reader's place on may be gone."""


class _Ahead(NamedTuple):
    """Consecutive records that were read, and not taken yet."""

    begin: int
    """Position of the first one."""
    records: list[bytes]
    size: int
    """Bytes of all."""
    met_end: bool
    """True if the position after them was missing."""


class Reader:
    """Reader of a journal from a place on. For one thread."""

    def __init__(self, engine: Engine, place: ReaderPosition) -> None:
        """Begin at a place, which may be below the horizon."""
        self.engine: Final = engine
        self._history: Final = History(place)
        self.marks: Final = Marks(engine)
        self.read_bytes = 0
        """Bytes of all records that were read."""
        self.met_end = False
        """True if the last read has found the end of the journal, after the records that it returned.

        Records that were read ahead tell nothing of it: it may be longer since.
        """
        self._thread: ThreadPoolExecutor | None = None
        """Thread that reads ahead, once there is more to read."""
        self._next: Future[_Ahead] | None = None

    def close(self) -> None:
        """Wait for a request that is in flight. Nothing is read after it."""
        if self._thread is not None:
            self._thread.shutdown()

    @property
    def place(self) -> ReaderPosition:
        """Place after the last record."""
        return self._history.place

    @property
    def endpoint(self) -> str:
        """Endpoint of the last owner whose fence was read."""
        return self._history.endpoint

    @property
    def successor(self) -> str:
        """Broker that takes over at once from the owner that has ended; see ``Owner.release``."""
        return self._history.successor

    @property
    def exported_to(self) -> str:
        """Place of the exported directory, once the export was read."""
        return self._history.exported_to

    def check(self) -> None:
        """Raise ``Trimmed`` if the records from here on may be gone. Raises ``EngineAway``."""
        self._check(self.place.position)

    def _check(self, first: int) -> None:
        self.marks.refresh()
        if self.marks.horizon > first:
            raise Trimmed(f"position {first} is below the checkpoint at {self.marks.horizon}")

    def read(self) -> Iterator[tuple[int, Header, Batch | None]]:
        """Yield the records up to the end, each with the batch that it completes; see ``read_some``."""
        position = -1
        while position != self.place.position:
            position = self.place.position
            yield from self.read_some()

    def read_some(self) -> Iterator[tuple[int, Header, Batch | None]]:
        """Yield the next records, of about ``AHEAD_BYTES``; none at the end.

        A record is taken, and ``place`` is after it, when it is yielded. Raises ``Trimmed``, ``EngineAway``, and
        ``RecordDamaged`` or ``FrameDamaged`` at the record.
        """
        found = self._found()
        if found.records:
            self._check(found.begin)
        self.read_bytes += found.size
        if not found.met_end:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="forebay-read-ahead")
            self._next = self._thread.submit(self._ahead, found.begin + len(found.records))
        for record in found.records:
            position = self.place.position
            header, body = decode(record)
            yield position, header, self._history.take(header, body)

    def _found(self) -> _Ahead:
        """Return the next records; sets ``met_end``."""
        position = self.place.position
        following, self._next = self._next, None
        if following is not None:
            found = following.result()
            if found.begin == position and found.records:
                self.met_end = False
                return found
        found = self._ahead(position)
        self.met_end = found.met_end
        return found

    def _ahead(self, begin: int) -> _Ahead:
        """Read the records from a position on up to the first missing one; what is after it does not count."""
        records: list[bytes] = []
        size, largest, at_once = 0, 1, 1
        met_end = False
        with ExitStack() as opened:
            pool: ThreadPoolExecutor | None = None
            while at_once and not met_end:
                position = begin + len(records)
                if at_once > 1 and pool is None:
                    pool = opened.enter_context(ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="forebay-reader"))
                read = map if pool is None else pool.map
                for record in read(self.engine.read, range(position, position + at_once)):
                    if record is None:
                        met_end = True
                        break
                    records.append(record)
                    size, largest = size + len(record), max(largest, len(record))
                room = min(AHEAD_RECORDS - len(records), -((size - AHEAD_BYTES) // largest))
                at_once = max(0, min(2 * at_once, READS_AT_ONCE, room))
        return _Ahead(begin, records, size, met_end)
