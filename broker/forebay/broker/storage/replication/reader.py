"""Reader of a journal whose begin is trimmed.

A record counts as read only if the horizon, looked up after the read, is at or below the first position of the read.
Below the horizon positions are missing, and a former owner may have created some of them again: whatever was read there
proves nothing. Such a reader raises ``Trimmed``, and begins again with the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import History, ReaderPosition
from forebay.broker.storage.replication.record import Header, decode

AHEAD_BYTES: Final = 32 << 20
"""Bytes of records that are read before the horizon is looked up."""
AHEAD_RECORDS: Final = 256
READS_AT_ONCE: Final = 8
"""Requests for records in flight, once there is more than one to read: each takes a round trip."""


class Trimmed(Exception):
    """The records from a reader's place on may be gone."""


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
        """True if the last read has found the end of the journal, after the records that it returned."""

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
        records = self._ahead()
        if records:
            self._check(self.place.position)
        for record in records:
            position = self.place.position
            header, body = decode(record)
            yield position, header, self._history.take(header, body)

    def _ahead(self) -> list[bytes]:
        """Return the next records up to the first missing position; what is after it does not count."""
        records: list[bytes] = []
        size, largest, at_once = 0, 1, 1
        self.met_end = False
        with ExitStack() as opened:
            pool: ThreadPoolExecutor | None = None
            while at_once and not self.met_end:
                begin = self.place.position + len(records)
                if at_once > 1 and pool is None:
                    pool = opened.enter_context(ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="forebay-reader"))
                read = map if pool is None else pool.map
                for record in read(self.engine.read, range(begin, begin + at_once)):
                    if record is None:
                        self.met_end = True
                        break
                    records.append(record)
                    size, largest = size + len(record), max(largest, len(record))
                room = min(AHEAD_RECORDS - len(records), -((size - AHEAD_BYTES) // largest))
                at_once = max(0, min(2 * at_once, READS_AT_ONCE, room))
        self.read_bytes += size
        return records
