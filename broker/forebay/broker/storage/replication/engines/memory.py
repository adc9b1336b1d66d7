"""Engine in memory for tests, with injected outages and late outcomes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from forebay.broker.storage.replication.batch import Piece
from forebay.broker.storage.replication.engine import EngineAway


class MemoryEngine:
    """``Engine`` in memory, shared by the writers of a test."""

    def __init__(self) -> None:
        """Start empty."""
        self.records: dict[int, bytes] = {}
        self.address = "memory://"
        self.atomic = True
        """False makes both of two writers at one position succeed, as stores without conditional creation do."""
        self.before_create: Callable[[int, bytes], None] = lambda position, record: None
        """Called before a record is added, outside of the lock."""
        self.lost_answers = 0
        """Number of next records that are added, and whose answer is lost."""
        self.away = False
        """True while no call is answered."""
        self._races: set[str] = set()
        self._lock = threading.Lock()  # protects the records; held for one look-up

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        record = b"".join(pieces)
        self.before_create(position, record)
        self._answer()
        with self._lock:
            if position in self.records and self.atomic:
                return False
            self.records[position] = record
            lost = self.lost_answers > 0
            self.lost_answers -= lost
        if lost:
            raise EngineAway("the answer was lost")
        return True

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        self._answer()
        return self.records.get(position)

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        self._answer()
        with self._lock:
            won = name not in self._races or not self.atomic
            self._races.add(name)
        return won

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        with self._lock:
            self._races.difference_update(names)

    def _answer(self) -> None:
        if self.away:
            raise EngineAway("it is switched off")
