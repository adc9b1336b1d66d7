"""Upkeep of a follower: what is given up, and what a takeover does not wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.replication.checkpoints.growth import Growth, Limits
from forebay.broker.storage.replication.checkpoints.job import Origin
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.checkpoints.source import CheckpointSource
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.upkeep import CHECK_S, RETRY_S, CheckpointFailed, Upkeep
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.calls.eventually import until
from tests.support.storage.journals import batch_of, take_over

WAIT_S = 20.0


class SlowEngine(MemoryEngine):
    """Answers a question for sizes once a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.indexed = threading.Event()

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        self.asked.set()
        assert self.may_answer.wait(WAIT_S)
        return super().sizes(first, end)

    def index(self) -> None:
        """See ``Engine.index``."""
        self.indexed.set()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine() -> SlowEngine:
    return SlowEngine()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upkeep(engine: SlowEngine, clock: Clock, tmp_path: Path) -> Iterator[Upkeep]:
    """The upkeep of a replica that has read a journal, of which a checkpoint is due."""
    with closing(RocksStore(tmp_path)) as store, closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        replica = Replica(store)
        reader = Reader(engine, replica.place)
        for _, _, batch in reader.read():
            if batch is not None:
                replica.apply(batch, reader.place)
        source = CheckpointSource(
            engine,
            Origin(store, tmp_path, lambda: replica.place, lambda: replica.journal),
            Growth(engine, Limits(0, 0.0, 1 << 30), tmp_path, lambda: replica.place, lambda: reader.read_bytes),
            tables_of="",
            clock_us=lambda: 0,
            monotonic=time.monotonic,
            failed=CheckpointFailed,
        )
        made = Upkeep(replica, source, clock)
        yield made
        engine.may_answer.set()
        made.close()


def look(upkeep: Upkeep, engine: SlowEngine, clock: Clock) -> None:
    """Begin to look whether a checkpoint is due; the answer is `SlowEngine.may_answer`."""
    clock.now += CHECK_S
    upkeep.step()
    assert engine.asked.wait(WAIT_S)


def made_until(upkeep: Upkeep, engine: SlowEngine, number: int) -> bool:
    """Step, and return whether the checkpoint of that number is complete."""
    upkeep.step()
    newest = Marks(engine).refresh()
    return newest is not None and newest.number == number


def test_a_checkpoint_that_is_due_is_made_in_steps(upkeep: Upkeep, engine: SlowEngine, clock: Clock) -> None:
    engine.may_answer.set()
    clock.now += CHECK_S

    until(lambda: made_until(upkeep, engine, 0), timeout_s=WAIT_S)


def test_a_checkpoint_is_not_begun_after_a_stop_that_came_while_it_was_looked_whether_it_is_due(
    upkeep: Upkeep, engine: SlowEngine, clock: Clock
) -> None:
    look(upkeep, engine, clock)

    upkeep.stop("a test")
    engine.may_answer.set()
    upkeep.finish()

    assert list(engine.files().names()) == []


def test_a_checkpoint_is_made_later_if_the_takeover_failed_for_which_it_was_given_up(
    upkeep: Upkeep, engine: SlowEngine, clock: Clock
) -> None:
    look(upkeep, engine, clock)
    upkeep.stop("a test")
    engine.may_answer.set()

    clock.now += RETRY_S

    until(lambda: made_until(upkeep, engine, 0), timeout_s=WAIT_S)


def test_an_index_is_written_before_it_is_asked_whether_a_checkpoint_is_due(
    upkeep: Upkeep, engine: SlowEngine, clock: Clock
) -> None:
    look(upkeep, engine, clock)

    assert engine.indexed.is_set()
