from __future__ import annotations

import threading

import pytest

from forebay.broker.storage.replication import read_ahead
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.read_ahead import READS_AT_ONCE, ReadAhead

WAIT_S = 30.0
TOGETHER = 4


class Engine(MemoryEngine):
    """Notes what is read; several threads read at once."""

    def __init__(self, records: int) -> None:
        super().__init__()
        for position in range(records):
            self.create(position, (b"%d" % position,))
        self.answered = threading.Condition()
        self.reads: list[int] = []
        self.away_at: int | None = None

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        try:
            if position == self.away_at:
                raise EngineAway("no answer")
            return super().read(position)
        finally:
            with self.answered:
                self.reads.append(position)
                self.answered.notify_all()

    def wait_for(self, position: int) -> bool:
        """Wait until the outcome of a read is certain."""
        with self.answered:
            return self.answered.wait_for(lambda: position in self.reads, WAIT_S)


class HangingEngine(Engine):
    """Answers the read of one record late."""

    def __init__(self, hanging: int) -> None:
        super().__init__(5 * TOGETHER)
        self.answers = threading.Event()
        self._hanging = hanging

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        found = super().read(position)
        if position == self._hanging:
            assert self.answers.wait(WAIT_S)
        return found


@pytest.fixture(autouse=True)
def _few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", TOGETHER)


def values(*positions: int) -> list[bytes]:
    """The records of positions."""
    return [b"%d" % position for position in positions]


def read_ahead_by(ahead: ReadAhead) -> list[bytes]:
    """The records that are read ahead, once nothing is in flight."""
    requests = ahead._requests
    assert requests is not None
    records = [request.result(WAIT_S) for request in list(requests._waiting)]
    assert len(records) == len(requests._waiting), "an answer has no further request"
    return [record for record in records if record is not None]


def read_from(ahead: ReadAhead, position: int, count: int) -> list[bytes]:
    """Records from a position on, by as many reads as it takes."""
    found: list[bytes] = []
    while len(found) < count:
        read = ahead.read(position + len(found))
        assert read.data
        assert read.size == sum(map(len, read.data))
        found += read.data
    return found


def test_the_next_records_are_read_before_they_are_asked_for() -> None:
    engine = Engine(3 * TOGETHER)
    ahead = ReadAhead(engine)

    assert ahead.read(0).data == values(0, 1, 2, 3)

    assert engine.wait_for(7)
    assert read_from(ahead, 4, 8) == values(4, 5, 6, 7, 8, 9, 10, 11)
    assert sorted(engine.reads[: 3 * TOGETHER]) == list(range(3 * TOGETHER)), "each is read once"
    ahead.close()


def test_no_more_records_are_read_ahead_than_the_bound_allows() -> None:
    engine = Engine(4 * TOGETHER)
    ahead = ReadAhead(engine)
    ahead.read(0)

    assert read_ahead_by(ahead) == values(4, 5, 6, 7)
    ahead.close()


def test_further_records_are_requested_while_one_has_no_answer() -> None:
    engine = HangingEngine(hanging=13)
    ahead = ReadAhead(engine)

    assert read_from(ahead, 0, 13) == values(*range(13)), "returned without the one that has no answer yet"

    assert engine.wait_for(16)
    engine.answers.set()
    assert read_from(ahead, 13, 7) == values(*range(13, 20))
    assert sorted(engine.reads[:20]) == list(range(20)), "each is read once"
    ahead.close()


def test_an_end_that_was_found_ahead_is_looked_for_again_when_it_is_reached() -> None:
    engine = Engine(TOGETHER + 2)
    ahead = ReadAhead(engine)
    ahead.read(0)
    assert engine.wait_for(6), "the first missing one"

    found = ahead.read(4)
    assert (found.data, found.met_end) == (values(4, 5), False)

    engine.create(6, (b"6",))
    found = ahead.read(6)
    assert (found.data, found.met_end) == (values(6), True)


def test_a_record_that_was_missing_ahead_and_is_there_when_it_is_asked_for_is_returned() -> None:
    engine = Engine(TOGETHER)
    ahead = ReadAhead(engine)
    ahead.read(0)
    assert engine.wait_for(4), "nothing was there"
    engine.create(4, (b"4",))

    assert ahead.read(4).data == values(4)


def test_a_read_ahead_that_failed_raises_once_its_record_is_asked_for_and_it_is_read_again_then() -> None:
    engine = Engine(2 * TOGETHER)
    engine.away_at = 5
    ahead = ReadAhead(engine)
    ahead.read(0)
    assert engine.wait_for(5)
    engine.away_at = None

    assert ahead.read(4).data == values(4)
    with pytest.raises(EngineAway):
        ahead.read(5)

    assert ahead.read(5).data == values(5, 6, 7)
    ahead.close()


def test_records_that_were_read_ahead_are_dropped_where_another_position_is_asked_for() -> None:
    engine = Engine(3 * TOGETHER)
    ahead = ReadAhead(engine)
    ahead.read(0)

    assert ahead.read(2).data == values(2, 3, 4, 5)
    assert read_from(ahead, 6, 6) == values(6, 7, 8, 9, 10, 11)
    ahead.close()


def test_threads_end_at_the_end_of_the_journal() -> None:
    before = set(threading.enumerate())
    ahead = ReadAhead(Engine(TOGETHER + 1))
    ahead.read(0)
    started = set(threading.enumerate()) - before
    ahead.read(4)
    assert ahead.read(5).met_end

    for thread in started:
        thread.join(WAIT_S)

    assert started
    assert not any(thread.is_alive() for thread in started)


class GatheringEngine(MemoryEngine):
    """Answers reads of records from a position on only once as many are in flight as there may be."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first
        self._all_here = threading.Barrier(READS_AT_ONCE)

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        if self._first <= position < self._first + READS_AT_ONCE:
            self._all_here.wait(WAIT_S)
        return super().read(position)


def test_records_are_read_by_several_requests_at_the_same_time_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 256)
    first = 1 + 2 + 4  # the requests before, which grow
    engine = GatheringEngine(first)
    count = first + READS_AT_ONCE
    for position in range(count):
        engine.create(position, (b"%d" % position,))

    ahead = ReadAhead(engine)

    assert read_from(ahead, 0, count) == values(*range(count))
    assert ahead.read(count).met_end


def test_large_records_are_read_ahead_by_as_few_requests_as_the_bound_of_bytes_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 4)
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 256)
    engine = Engine(20)
    engine.records = dict.fromkeys(range(20), b"ab")
    ahead = ReadAhead(engine)

    assert ahead.read(0).data == [b"ab"] * 2
    assert read_ahead_by(ahead) == [b"ab"] * 2
    ahead.close()


def test_a_record_above_the_bound_of_bytes_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 1)
    engine = Engine(0)
    engine.records = dict.fromkeys(range(4), b"ab")
    ahead = ReadAhead(engine)

    assert [ahead.read(position).data for position in range(4)] == [[b"ab"]] * 4
    assert ahead.read(4).met_end
