"""Journals in tests: numbered batches, what a reader takes of them, owners, and checkpoints without files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.checkpoints.trim import trim
from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.history import History, ReaderPosition
from forebay.broker.storage.replication.owner import Owner, fence
from forebay.broker.storage.replication.pieces import Pieces
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.record import decode
from forebay.broker.storage.store.contract import Family, Put

NUMBER = b"number"


def batch_of(number: int) -> Pieces:
    """A frame that puts a number."""
    return encode(Batch([], [Put(Family.META, NUMBER, number.to_bytes(8, "big"))]))


def read_history(engine: Engine) -> tuple[History, list[int]]:
    """Read a journal from its beginning; returns the reader's state and the numbers of the batches."""
    history, numbers = History(), []
    while (record := engine.read(history.place.position)) is not None:
        batch = history.take(*decode(record))
        numbers += numbers_of(batch)
    return history, numbers


def numbers_of(batch: Batch | None) -> list[int]:
    """The numbers that a batch puts."""
    found = []
    for operation in batch.operations if batch is not None else ():
        assert isinstance(operation, Put)
        found.append(int.from_bytes(operation.value, "big"))
    return found


def read_all(engine: Engine) -> list[int]:
    """The numbers that a reader takes."""
    return read_history(engine)[1]


def take_over(engine: Engine, name: bytes, *, at: int | None = None) -> Owner:
    """Fence the owner, at a position of the caller's if the end is beyond it, and return the next one."""
    epoch = read_history(engine)[0].place.epoch + 1
    identity = name * 16
    fence(engine, epoch, identity, "", lambda: read_history(engine)[0].place.position if at is None else at)
    place = read_history(engine)[0].place
    position = place.position if at is None else at + 1
    return Owner(engine, epoch, identity, position, time.monotonic)


@dataclass
class NumberReplica:
    """A replica that is a list of numbers."""

    engine: Engine
    place: ReaderPosition = field(default_factory=ReaderPosition)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reader = Reader(self.engine, self.place)

    def read(self) -> int:
        """Read up to the end; returns the first missing position. Raises ``Trimmed``."""
        for _, _, batch in self.reader.read():
            self.numbers += numbers_of(batch)
            if batch is not None:
                self.place = self.reader.place
        return self.reader.place.position

    def again(self) -> NumberReplica:
        """The replica of a process that starts again on what this one has stored."""
        return NumberReplica(self.engine, self.place, list(self.numbers))


class NumberCheckpoints:
    """Checkpoints of such replicas, whose content is in memory."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._content: dict[str, list[int]] = {}

    def make(self, replica: NumberReplica) -> None:
        """Complete the trim of the last checkpoint, make another one, and trim by it."""
        marks = Marks(self._engine)
        before = marks.refresh()
        if before is not None:
            self.trim(before)
        number = before.number + 1 if before is not None else 0
        place = replica.place
        if place.position <= (before.position if before is not None else 0):
            return
        mark = Mark(
            number, f"{number}-{len(self._content)}", place.position, place.epoch, place.owner.hex(), place.group, 0
        )
        self._content[mark.id] = list(replica.numbers)
        if marks.add(mark):
            self.trim(mark)

    def trim(self, mark: Mark) -> int:
        """Trim by a checkpoint."""
        before = Marks(self._engine).read(mark.number - 1) if mark.number else None
        return trim(self._engine, before.place if before is not None else ReaderPosition(), mark, threading.Event())

    def load(self) -> NumberReplica:
        """A replica on an empty disk."""
        mark = Marks(self._engine).refresh()
        if mark is None:
            return NumberReplica(self._engine)
        return NumberReplica(self._engine, mark.place, list(self._content[mark.id]))


def interrupting(changes: int) -> Callable[[int], None]:
    """Return a hook that kills a broker after some changes of records."""
    left = changes

    def interrupt(position: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise EngineAway("the broker was killed")

    return interrupt
