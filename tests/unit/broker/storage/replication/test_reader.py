from __future__ import annotations

import threading
from contextlib import closing

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.reader import AHEAD_RECORDS, READS_AT_ONCE, Reader
from tests.support.storage.journals import batch_of, numbers_of, take_over


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
