"""Conformance of engines: each runs it over a place of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.probe import probe
from tests.support.storage.journals import batch_of, read_all, take_over


class EngineConformance:
    """Derive from it and provide the fixture ``engine``, which is empty."""

    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    def test_a_record_is_read_back_and_a_missing_one_is_none(self, engine: Engine) -> None:
        assert engine.create(3, [b"one", memoryview(b"two"), b""])

        assert engine.read(3) == b"onetwo"
        assert engine.read(2) is None

    def test_a_position_that_has_a_record_is_not_created_again(self, engine: Engine) -> None:
        assert engine.create(0, [b"first"])

        assert not engine.create(0, [b"second"])
        assert engine.read(0) == b"first"

    def test_of_many_writers_at_one_position_exactly_one_succeeds(self, engine: Engine) -> None:
        with ThreadPoolExecutor(8) as pool:
            for position in range(10):
                created = list(pool.map(lambda writer, at=position: engine.create(at, [b"%d" % writer]), range(8)))
                assert created.count(True) == 1
                assert engine.read(position) == b"%d" % created.index(True)

    def test_the_probe_finds_it_suitable_and_leaves_nothing(self, engine: Engine) -> None:
        probe(engine, races=20)

        assert engine.read(0) is None
        assert engine.race("x")
        engine.end_races(["x"])
        assert engine.race("x")

    def test_owners_follow_each_other(self, engine: Engine) -> None:
        first = take_over(engine, b"a")
        first.append(batch_of(1))
        second = take_over(engine, b"b")
        second.append(batch_of(2))
        second.append(batch_of(3))

        assert read_all(engine) == [1, 2, 3]
        for owner in (first, second):
            owner.close()

    def test_a_large_record_is_read_back(self, engine: Engine) -> None:
        piece = bytes(range(256)) * 4_096

        assert engine.create(1, [piece] * 8)
        assert engine.read(1) == piece * 8
