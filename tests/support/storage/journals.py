"""Journals in tests: numbered batches, what a reader takes of them, and owners."""

from __future__ import annotations

import time

from forebay.broker.storage.replication.batch import Batch, Piece, encode
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import History
from forebay.broker.storage.replication.owner import Owner, fence
from forebay.broker.storage.replication.record import decode
from forebay.broker.storage.store.contract import Family, Put

NUMBER = b"number"


def batch_of(number: int) -> list[Piece]:
    """A frame that puts a number."""
    return encode(Batch([], [Put(Family.META, NUMBER, number.to_bytes(8, "big"))]))


def read_history(engine: Engine) -> tuple[History, list[int]]:
    """Read a journal from its begin; returns the reader's state and the numbers of the batches."""
    history, numbers = History(), []
    while (record := engine.read(history.place.position)) is not None:
        batch = history.take(*decode(record))
        for operation in batch.operations if batch is not None else ():
            assert isinstance(operation, Put)
            numbers.append(int.from_bytes(operation.value, "big"))
    return history, numbers


def read_all(engine: Engine) -> list[int]:
    """The numbers that a reader takes."""
    return read_history(engine)[1]


def take_over(engine: Engine, name: bytes, *, at: int | None = None) -> Owner:
    """Fence the owner, at a position of the caller's if the end is behind it, and return the next one."""
    epoch = read_history(engine)[0].place.epoch + 1
    identity = name * 16
    fence(engine, epoch, identity, "", lambda: read_history(engine)[0].place.position if at is None else at)
    place = read_history(engine)[0].place
    position = place.position if at is None else at + 1
    return Owner(engine, epoch, identity, position, time.monotonic)
