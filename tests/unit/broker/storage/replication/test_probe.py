"""The probe of an engine."""

from __future__ import annotations

import pytest

from forebay.broker.storage.replication.engine import EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.probe import probe


def test_an_engine_where_several_writers_create_one_object_is_refused_by_name() -> None:
    engine = MemoryEngine()
    engine.atomic = False

    with pytest.raises(EngineUnsuitable, match=r"memory://.*4 of 4 writers created the same object"):
        probe(engine, races=5)


def test_an_engine_that_does_not_answer_is_not_refused() -> None:
    engine = MemoryEngine()
    engine.away = True

    with pytest.raises(EngineAway):
        probe(engine, races=5)


def test_an_engine_that_lost_the_answer_of_a_winner_is_not_refused_and_may_be_probed_again() -> None:
    class Losing(MemoryEngine):
        """Loses one answer; the client repeats the request, which finds the object."""

        lost = False

        def race(self, name: str) -> bool:
            """See ``Engine.race``."""
            won = super().race(name)
            if won and not self.lost:
                self.lost = True
                return False
            return won

    engine = Losing()

    with pytest.raises(EngineAway, match="in 1 of 5 races no writer created the object"):
        probe(engine, races=5)
    probe(engine, races=5)
