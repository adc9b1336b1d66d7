from __future__ import annotations

import pytest

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.end_search import DISTANCE, LOOK_S, STEP, EndSearch


class Engine(MemoryEngine):
    """Records up to an end; counts the requests, each of which takes a second."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 0
        self.now = 0.0
        self.peeks = 0

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        self.peeks += 1
        self.now += 1.0
        return b"" if position < self.end else None


def test_a_position_without_a_record_is_found_with_a_time_before_it_was_looked_up() -> None:
    engine = Engine()
    engine.end = 10 * DISTANCE
    search = EndSearch(engine, lambda: engine.now)

    found = search.look(5)

    assert found == (5 + DISTANCE + 127 * DISTANCE // STEP, 7.0)
    assert engine.peeks == 8


def test_searches_are_so_far_apart_and_begin_near_the_end_that_was_found_before() -> None:
    engine = Engine()
    engine.end = 1_000
    search = EndSearch(engine, lambda: engine.now)
    distances = []
    for _ in range(4):
        found = search.look(996)
        assert found is not None
        distances.append(found[0] - 996)
        engine.now -= 1.0
        assert search.look(996) is None, "none is due"
        engine.now += LOOK_S
    engine.end = 2_000
    found = search.look(996)

    assert distances == [64, 56, 49, 43]
    assert found is not None
    assert found[0] == 996 + 1_058


@pytest.mark.parametrize("behind", [1, 5, 40, 66, 1_000, 70_000])
def test_a_follower_that_stays_as_far_behind_is_found_to_be_that_far_behind_by_few_requests(behind: int) -> None:
    engine = Engine()
    search = EndSearch(engine, lambda: engine.now)
    distances = []
    for position in range(60):
        engine.end = position + behind
        found = search.look(position)
        assert found is not None
        distances.append(found[0] - position)
        if position == 40:
            engine.peeks = 0

    assert min(distances) >= behind
    assert max(distances[40:]) <= max(behind + 2, 1.25 * behind)
    assert engine.peeks <= 3 * 19
