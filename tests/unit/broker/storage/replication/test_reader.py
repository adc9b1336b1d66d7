from __future__ import annotations

from contextlib import closing

import pytest

from forebay.broker.storage.replication import read_ahead
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.read_ahead import AHEAD_RECORDS
from forebay.broker.storage.replication.reader import Reader, Trimmed
from tests.support.storage.journals import NumberCheckpoints, NumberReplica, batch_of, take_over


def test_a_read_that_returns_records_up_to_the_end_has_met_it() -> None:
    engine = MemoryEngine()
    reader = Reader(engine, ReaderPosition())
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))

        assert len(list(reader.read_some())) == 2, "the fence and the group"
        assert reader.met_end

        for number in range(AHEAD_RECORDS):
            owner.append(batch_of(number))
        met_end = []
        while list(reader.read_some()):
            met_end.append(reader.met_end)

    assert reader.place.position == len(engine.records)
    assert not any(met_end[:-1])
    assert reader.met_end, "nothing is left"


def test_records_after_the_first_missing_position_are_not_taken_although_they_are_read() -> None:
    engine = MemoryEngine()
    with closing(take_over(engine, b"a")) as owner:
        for number in range(20):
            owner.append(batch_of(number))
    missing = engine.records.pop(10)
    reader = Reader(engine, ReaderPosition())

    before = [position for position, _, _ in reader.read()]
    met_end = reader.met_end
    engine.records[10] = missing
    after = [position for position, _, _ in reader.read()]

    assert (before, met_end) == (list(range(10)), True)
    assert after == list(range(10, 21))


def test_records_that_were_read_ahead_do_not_count_once_a_checkpoint_replaces_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 4)
    engine = MemoryEngine()
    with closing(take_over(engine, b"a")) as owner:
        for number in range(20):
            owner.append(batch_of(number))
    reader = Reader(engine, ReaderPosition())
    assert len(list(reader.read_some())) == 4, "the next ones are read meanwhile"

    replica = NumberReplica(engine)
    replica.read()
    NumberCheckpoints(engine).make(replica)

    with pytest.raises(Trimmed, match="position 4 is below the checkpoint at 21"):
        list(reader.read_some())
