"""Hints at the owners of a fleet, in an engine in memory."""

from __future__ import annotations

import pytest

from forebay.broker.core import shards
from forebay.broker.core.shards import DirectoryAway, ShardHint
from forebay.broker.storage.replication import shard_directory
from forebay.broker.storage.replication.engine import Engine, EngineUnsuitable
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.shard_directory import ShardDirectory


def test_hints_are_read_back_by_the_names_of_their_shards_and_replaced() -> None:
    directory = ShardDirectory(MemoryEngine)
    for hint in (ShardHint("b", "h:1", 1), ShardHint("a", "[::1]:2", 2), ShardHint("b", "h:3", 3)):
        directory.put(hint)

    assert directory.read() == [ShardHint("a", "[::1]:2", 2), ShardHint("b", "h:3", 3)]


def test_a_hint_is_read_as_it_was_written_and_that_of_an_earlier_version_too() -> None:
    engine = MemoryEngine()
    directory = ShardDirectory(lambda: engine)
    directory.put(ShardHint("a", "h:1", 1, "aa", is_joined=True))
    engine.put_named("directory/b", b'{"endpoint":"h:2","epoch":2}')

    assert directory.read() == [ShardHint("a", "h:1", 1, "aa", is_joined=True), ShardHint("b", "h:2", 2)]


NO_HINTS = [b"", b"{", b"[]", b'{"endpoint":"h:1"}', b'{"endpoint":"h:1","epoch":"x"}', b"\xff"]


@pytest.mark.parametrize("content", NO_HINTS)
def test_an_object_that_is_no_hint_is_left_out(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    engine = MemoryEngine()
    directory = ShardDirectory(lambda: engine)
    directory.put(ShardHint("a", "h:1", 1))
    engine.put_named("directory/b", content)
    engine.put_named("directory/.new-c", b"")

    assert directory.read() == [ShardHint("a", "h:1", 1)]
    assert "no hint name=directory/b" in caplog.text


def test_shards_beyond_the_bound_are_left_out_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_directory, "SHARDS_MAX", 2)
    directory = ShardDirectory(MemoryEngine)
    for name in ("c", "a", "b"):
        directory.put(ShardHint(name, "h:1", 1))

    assert [hint.shard for hint in directory.read()] == ["a", "b"]
    assert shards.SHARDS_MAX == 256


def test_an_engine_that_is_unreachable_is_a_directory_that_does_not_answer() -> None:
    engine = MemoryEngine()
    directory = ShardDirectory(lambda: engine)
    engine.away = True

    for call in (directory.read, lambda: directory.put(ShardHint("a", "h:1", 1))):
        with pytest.raises(DirectoryAway, match="switched off"):
            call()


def test_an_engine_that_cannot_be_opened_is_opened_later() -> None:
    failures: list[Exception] = [OSError("no such host"), EngineUnsuitable("no bucket")]

    def open_engine() -> Engine:
        if failures:
            raise failures.pop()
        return MemoryEngine()

    directory = ShardDirectory(open_engine)
    for _ in range(2):
        with pytest.raises(DirectoryAway):
            directory.read()
    assert directory.read() == []
