from __future__ import annotations

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.end_search import DISTANCE, LOOK_S, EndSearch


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

    assert found == (5 + 16 * DISTANCE, 4.0)
    assert engine.peeks == 5


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

    assert distances == [DISTANCE, DISTANCE // 2, DISTANCE // 4, DISTANCE // 8]
    assert found is not None
    assert found[0] == 996 + 1_024
