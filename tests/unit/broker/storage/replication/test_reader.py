from __future__ import annotations

from contextlib import closing

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.reader import AHEAD_RECORDS, Reader
from tests.support.storage.journals import batch_of, take_over


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
