"""Conformance of engines: each runs it over a place of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.probe import probe
from forebay.broker.storage.replication.record import HEADER_BYTES
from tests.support.storage.journals import NumberCheckpoints, NumberReplica, batch_of, read_all, take_over


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
        assert engine.create(2, [b"begin", memoryview(piece)[7:], b"", b"end"])
        assert engine.read(1) == piece * 8
        assert engine.read(2) == b"begin" + piece[7:] + b"end"

    def test_the_begin_of_a_record_is_its_header(self, engine: Engine) -> None:
        record = [bytes(range(100)), b"x" * 1_000]
        engine.create(3, record)

        begin = engine.peek(3)

        assert begin is not None
        assert len(begin) >= HEADER_BYTES
        assert b"".join(record).startswith(begin)
        assert engine.peek(2) is None

    def test_records_of_a_range_are_listed_with_their_sizes_by_rising_positions(self, engine: Engine) -> None:
        for position in (12, 3, 7, 0, 20):
            engine.create(position, [b"x" * position])

        assert list(engine.sizes(3, 20)) == [(3, 3), (7, 7), (12, 12)]
        assert [position for position, _ in engine.sizes(0, 1 << 63)] == [0, 3, 7, 12, 20]
        assert not list(engine.sizes(21, 30))

    def test_a_record_is_replaced(self, engine: Engine) -> None:
        engine.create(1, [b"first"])

        engine.replace(1, [b"sec", b"ond"])

        assert engine.read(1) == b"second"
        assert not engine.create(1, [b"third"])

    def test_deleted_records_are_missing_and_others_stay(self, engine: Engine) -> None:
        for position in range(5):
            engine.create(position, [b"x"])

        engine.delete([1, 3, 9])
        engine.delete([1])

        assert [position for position, _ in engine.sizes(0, 9)] == [0, 2, 4]
        assert engine.create(1, [b"again"])

    def test_a_named_object_is_created_once(self, engine: Engine) -> None:
        assert engine.read_named("marks/1") is None
        assert engine.create_named("marks/1", b"first")

        assert not engine.create_named("marks/1", b"second")
        assert engine.read_named("marks/1") == b"first"
        assert not list(engine.sizes(0, 1 << 63))

    def test_a_named_object_that_only_informs_is_replaced(self, engine: Engine) -> None:
        engine.put_named("directory/a", b"first")

        engine.put_named("directory/a", b"second")

        assert engine.read_named("directory/a") == b"second"
        assert not list(engine.sizes(0, 1 << 63))

    def test_a_named_object_that_only_informs_is_deleted(self, engine: Engine) -> None:
        for name in ("a", "b"):
            engine.put_named(f"directory/{name}", b"x")

        engine.delete_named("directory/a")
        engine.delete_named("directory/a")
        engine.delete_named("missing/a")

        assert engine.names("directory") == ["directory/b"]
        assert engine.read_named("directory/a") is None

    def test_named_objects_are_listed_by_folder(self, engine: Engine) -> None:
        engine.create_named("marks/1", b"x")
        for name in ("b", "a"):
            engine.put_named(f"directory/{name}", b"x")

        assert engine.names("directory") == ["directory/a", "directory/b"]
        assert engine.names("marks") == ["marks/1"]
        assert engine.names("missing") == []

    def test_files_are_read_back_listed_and_deleted(self, engine: Engine) -> None:
        files = engine.files()
        files.put("0-a/files/db/1", [b"one", b"two"])
        files.put("0-a/manifest", [b"x"])
        files.sync()

        assert b"".join(engine.files().get("0-a/files/db/1")) == b"onetwo"
        assert sorted(engine.files().names()) == ["0-a/files/db/1", "0-a/manifest"]
        assert list(engine.files().names("0-a/m")) == ["0-a/manifest"]
        engine.files().delete(["0-a/files/db/1"])
        assert list(engine.files().names()) == ["0-a/manifest"]
        with pytest.raises(FileNotFoundError):
            list(engine.files().get("0-a/files/db/1"))
        assert not list(engine.sizes(0, 1 << 63))

    def test_an_index_changes_nothing_that_is_read(self, engine: Engine) -> None:
        engine.create(0, [b"record"])
        engine.create_named("marks/1", b"mark")
        engine.files().put("0-a/manifest", [b"file"])

        engine.index()

        assert engine.read(0) == b"record"
        assert engine.names("marks") == ["marks/1"]
        assert list(engine.files().names()) == ["0-a/manifest"]
        assert list(engine.sizes(0, 1 << 63)) == [(0, 6)]

    def test_checkpoint_and_trim_leave_an_empty_disk_everything(self, engine: Engine) -> None:
        owner = take_over(engine, b"a")
        for number in range(3):
            owner.append(batch_of(number))
        made, replica = NumberCheckpoints(engine), NumberReplica(engine)
        replica.read()
        made.make(replica)
        owner.append(batch_of(3))
        owner.close()

        found = made.load()
        found.read()

        assert found.numbers == [0, 1, 2, 3]
        assert [position for position, _ in engine.sizes(0, 1 << 63)] == [0, 4]
