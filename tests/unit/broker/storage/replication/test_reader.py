from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.owner import Owner
from forebay.broker.storage.replication.reader import AHEAD_RECORDS, READS_AT_ONCE, Reader, Trimmed
from tests.support.storage.journals import NumberCheckpoints, NumberReplica, batch_of, numbers_of, take_over


def test_a_read_that_returns_records_up_to_the_end_has_met_it() -> None:
    engine = MemoryEngine()
    reader = Reader(engine, ReaderPosition())
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))

        assert len(list(reader.read_some())) == 2, "the fence and the group"
        assert reader.met_end

        for number in range(AHEAD_RECORDS):
            owner.append(batch_of(number))
        found = [bool(list(reader.read_some())) and reader.met_end for _ in range(2)]

    assert found == [False, False], "then nothing is left to read"
    assert reader.met_end


class GatheringEngine(MemoryEngine):
    """Answers reads of records from a position on only once as many are in flight as a reader may have."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first
        self._all_here = threading.Barrier(READS_AT_ONCE)

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        if self._first <= position < self._first + READS_AT_ONCE:
            self._all_here.wait(30)
        return super().read(position)


def test_records_are_read_by_several_requests_at_the_same_time_and_taken_in_their_order() -> None:
    first = 1 + 2 + 4  # the windows before, which grow
    engine = GatheringEngine(first)
    engine_of_writer = MemoryEngine()
    with closing(take_over(engine_of_writer, b"a")) as owner:
        for number in range(first + READS_AT_ONCE):
            owner.append(batch_of(number))
    engine.records = engine_of_writer.records

    reader = Reader(engine, ReaderPosition())
    numbers = [numbers_of(batch) for _, _, batch in reader.read_some() if batch is not None]

    assert numbers == [[number] for number in range(first + READS_AT_ONCE)]
    assert reader.met_end


def test_records_after_the_first_missing_position_are_not_taken_although_they_are_read() -> None:
    engine = MemoryEngine()
    with closing(take_over(engine, b"a")) as owner:
        for number in range(20):
            owner.append(batch_of(number))
    missing = engine.records.pop(10)
    reader = Reader(engine, ReaderPosition())

    before = [position for position, _, _ in reader.read_some()]
    met_end = reader.met_end
    engine.records[10] = missing
    after = [position for position, _, _ in reader.read_some()]

    assert (before, met_end) == (list(range(10)), True)
    assert after == list(range(10, 21))


class SignallingEngine(MemoryEngine):
    """Tells when a position was read, the first time perhaps in vain."""

    def __init__(self, position: int, *, is_away: bool) -> None:
        super().__init__()
        self._position = position
        self._is_away = is_away
        self.was_read = threading.Event()

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        found = super().read(position)
        if position == self._position:
            self.was_read.set()
            if self._is_away:
                self._is_away = False
                raise EngineAway("it does not answer")
        return found


@contextmanager
def behind(records: int, *, is_away: bool = False) -> Iterator[tuple[SignallingEngine, Owner, Reader]]:
    """Yield a journal of which a reader has taken ``AHEAD_RECORDS``, and has read the others ahead."""
    engine = SignallingEngine(AHEAD_RECORDS + records, is_away=is_away)
    with closing(take_over(engine, b"a")) as owner:  # its fence is a record
        for number in range(1, AHEAD_RECORDS + records):
            owner.append(batch_of(number))
        with closing(Reader(engine, ReaderPosition())) as reader:
            taken = reader.read_some()
            next(taken)
            assert engine.was_read.wait(30), "the others are read while these are taken"
            assert len(list(taken)) == AHEAD_RECORDS - 1
            yield engine, owner, reader


def test_the_next_records_are_read_while_others_are_taken() -> None:
    with behind(3) as (engine, _, reader):
        engine.records.clear()

        assert [position for position, _, _ in reader.read_some()] == [AHEAD_RECORDS + number for number in range(3)]
        assert not reader.met_end, "it may be longer since"
        assert reader.read_bytes > 0
        assert not list(reader.read_some())
        assert reader.met_end


def test_the_end_is_looked_for_again_where_nothing_was_there_to_read_ahead() -> None:
    with behind(0) as (_, owner, reader):
        owner.append(batch_of(7))

        [(_, _, batch)] = reader.read_some()
        assert numbers_of(batch) == [7]
        assert reader.met_end


def test_records_that_were_trimmed_after_they_were_read_ahead_are_not_taken() -> None:
    with behind(3) as (engine, _, reader):
        above = NumberReplica(engine)
        above.read()
        NumberCheckpoints(engine).make(above)

        with pytest.raises(Trimmed):
            list(reader.read_some())


def test_an_engine_that_does_not_answer_while_records_are_read_ahead_is_asked_again() -> None:
    with behind(3, is_away=True) as (_, _, reader):
        with pytest.raises(EngineAway):
            list(reader.read_some())

        assert len(list(reader.read_some())) == 3
        assert reader.met_end
