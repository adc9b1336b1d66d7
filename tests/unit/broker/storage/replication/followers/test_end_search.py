from __future__ import annotations

import pytest

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.end_search import LOOK_S, STEP, EndSearch


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


@pytest.mark.parametrize("behind", [0, 1, 2, 7, 8, 9, 64, 65, 1_000, 70_000])
def test_a_position_near_the_end_is_found_with_a_time_before_it_was_looked_up(behind: int) -> None:
    engine = Engine()
    engine.end = 5 + behind
    looked: list[tuple[int, float]] = []
    peek = engine.peek

    def noted(position: int) -> bytes | None:
        looked.append((position, engine.now))
        return peek(position)

    engine.peek = noted  # type: ignore[method-assign]
    found = EndSearch(engine, lambda: engine.now).look(5)

    assert found is not None
    assert behind <= found[0] - 5 <= max(behind + 1, behind * STEP / (STEP - 1))
    assert found in looked
    assert engine.peeks <= 22


def test_searches_are_so_far_apart_and_find_the_end_at_once_where_it_comes_nearer() -> None:
    engine = Engine()
    engine.end = 1_064
    search = EndSearch(engine, lambda: engine.now)
    distances = []
    for position in (1_000, 1_060, 1_063):
        began = engine.now
        found = search.look(position)
        assert found is not None
        distances.append(found[0] - position)
        engine.now = began + LOOK_S - 0.001
        assert search.look(position) is None, "none is due"
        engine.now = began + LOOK_S

    assert 64 <= distances[0] <= 72
    assert distances[1:] == [4, 1]


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
    assert max(distances[40:]) <= max(behind + 2, 1.15 * behind)
    assert engine.peeks <= 3 * 19
