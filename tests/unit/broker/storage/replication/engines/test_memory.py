"""The in-memory engine behaves like every engine, and fails on request."""

from __future__ import annotations

import pytest

from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from tests.support.storage.engine_conformance import EngineConformance


class TestMemoryEngine(EngineConformance):
    @pytest.fixture
    def engine(self) -> Engine:
        return MemoryEngine()


def test_a_record_whose_answer_is_lost_exists() -> None:
    engine = MemoryEngine()
    engine.lost_answers = 1

    with pytest.raises(EngineAway):
        engine.create(0, [b"x"])

    assert engine.read(0) == b"x"
