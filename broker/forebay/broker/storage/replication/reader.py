"""Reader of a journal whose begin is trimmed.

A record counts as read only if the horizon, looked up after the read, is at or below the first position of the read.
Below the horizon positions are missing, and a former owner may have created some of them again: whatever was read there
proves nothing. Such a reader raises ``Trimmed``, and begins again with the newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import History, ReaderPosition
from forebay.broker.storage.replication.read_ahead import ReadAhead
from forebay.broker.storage.replication.record import Header, decode


class Trimmed(Exception):
    """The records from a reader's place on may be gone."""


class Reader:
    """Reader of a journal from a place on. For one thread."""

    def __init__(self, engine: Engine, place: ReaderPosition) -> None:
        """Begin at a place, which may be below the horizon."""
        self.engine: Final = engine
        self._history: Final = History(place)
        self._ahead: Final = ReadAhead(engine)
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

    def close(self) -> None:
        """End the read-ahead."""
        self._ahead.close()

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
        """Yield the next records, as many as are read together, while further ones are read; none at the end.

        A record is taken, and ``place`` is after it, when it is yielded. Raises ``Trimmed``, ``EngineAway``, and
        ``RecordDamaged`` or ``FrameDamaged`` at the record.
        """
        found = self._ahead.read(self.place.position)
        self.met_end = found.met_end
        self.read_bytes += found.size
        if found.data:
            self._check(self.place.position)
        for record in found.data:
            position = self.place.position
            header, body = decode(record)
            yield position, header, self._history.take(header, body)
