"""The start of a broker with a journal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import EIO
from pathlib import Path

import pytest

from forebay.broker import shard as shards
from forebay.broker.core.shards import ShardHint
from forebay.broker.settings import BrokerSettings, SettingsError, load
from forebay.broker.shard import own_shard
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import RecordKind, decode_header
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from tests.support.calls.eventually import until


def settings_in(directory: Path) -> BrokerSettings:
    return load(data_dir=directory / "data", journal=str(directory / "journal"), disk_reserve_bytes=0)


def test_a_journal_whose_directory_cannot_be_opened_for_a_time_is_owned_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = MemoryEngine()
    failures = [OSError(EIO, "the server does not answer") for _ in range(2)]

    def open_engine(text: str, *, creates: bool = True) -> Engine:
        if failures:
            raise failures.pop()
        return engine

    monkeypatch.setattr(shards, "open_engine", open_engine)
    monkeypatch.setattr(shards, "POLL_S", 0.001)
    store = own_shard(settings_in(tmp_path), threading.Event())

    assert store is not None
    with closing(store):
        assert store.engine is engine


def start_after(failures: Sequence[EngineAway], directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a broker whose journal is opened after these failures, and stop it."""
    left = iter(failures)

    def open_engine(text: str, *, creates: bool = True) -> Engine:
        if (failure := next(left, None)) is not None:
            raise failure
        return MemoryEngine()

    monkeypatch.setattr(shards, "open_engine", open_engine)
    monkeypatch.setattr(shards, "POLL_S", 0.001)
    store = own_shard(settings_in(directory), threading.Event())
    assert store is not None
    store.close()


def test_a_start_logs_why_it_waits_for_its_journal_once_for_each_kind_of_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [EngineAway("no route"), EngineAway("no answer"), EngineRefused("a login"), EngineRefused("a right")]

    start_after(failures, tmp_path, monkeypatch)

    said = [line.partition(" journal=")[0] for line in caplog.messages if "cause=" in line]
    assert said == ["journal does not answer", "journal refuses access"]
    assert "cause=no route" in caplog.text
    assert "cause=a login" in caplog.text


def test_a_start_that_waits_for_its_journal_logs_the_address_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start_after([EngineAway("no route", "kafka://host:1/orders.shards.a")], tmp_path, monkeypatch)

    [said] = [line for line in caplog.messages if "does not answer" in line]
    assert said == "journal does not answer journal=kafka://host:1/orders.shards.a cause=no route"


@pytest.mark.parametrize("journal", ["file", "file/journal"])
def test_a_journal_whose_path_is_no_directory_is_refused(tmp_path: Path, journal: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError, match=rf"journal = '.*/{journal}': cannot be used as a directory: [FN][a-z ]+$"):
        own_shard(load(data_dir=tmp_path / "data", journal=str(tmp_path / journal)), threading.Event())


@pytest.mark.parametrize("exists", [False, True], ids=["no directory", "an empty directory"])
def test_a_broker_that_has_a_replica_waits_for_its_journal_and_creates_none_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, exists: bool
) -> None:
    """The journal is on a mount, and the broker is started before it."""
    monkeypatch.setattr(shards, "POLL_S", 0.001)
    settings, journal = settings_in(tmp_path), tmp_path / "journal"
    first = own_shard(settings, threading.Event())
    assert first is not None
    recover(first)
    first.close()
    journal.rename(tmp_path / "elsewhere")
    if exists:
        journal.mkdir()
    with ThreadPoolExecutor(1) as pool:
        owned = pool.submit(own_shard, settings, threading.Event())
        until(lambda: "There is no journal, it may not be mounted" in caplog.text)
        found = list(journal.iterdir()) if exists else journal.exists()
        if exists:
            journal.rmdir()
        (tmp_path / "elsewhere").rename(journal)
        again = owned.result(30)

    assert again is not None
    with closing(again):
        assert again.owner.epoch > 1
    assert not found


def named(directory: Path, shard: str) -> BrokerSettings:
    """Return the settings of a broker that has the common journal, and no other directory."""
    return load(
        data_dir=directory / f"data-{shard}", journal=str(directory / "journal"), shard=shard, disk_reserve_bytes=0
    )


def test_each_shard_with_a_name_has_a_journal_of_its_own_below_the_common_address(tmp_path: Path) -> None:
    for shard in ("a", "b"):
        store = own_shard(named(tmp_path, shard), threading.Event())
        assert store is not None
        with closing(store):
            assert store.engine.address == f"file://{tmp_path}/journal/shards/{shard}"


def test_a_shard_without_a_name_is_refused_where_shards_have_names(tmp_path: Path) -> None:
    ShardDirectory(lambda: DirectoryEngine(tmp_path / "journal")).put(ShardHint("a", "h:1", 1))

    with pytest.raises(SettingsError, match=r"has shards with names \(a\); set shard"):
        own_shard(settings_in(tmp_path), threading.Event())


def test_a_shard_with_a_name_is_refused_in_the_journal_of_one_without(tmp_path: Path) -> None:
    store = own_shard(settings_in(tmp_path), threading.Event())
    assert store is not None
    store.close()

    with pytest.raises(SettingsError, match="is the journal of a shard without a name"):
        own_shard(named(tmp_path, "a"), threading.Event())


def test_a_broker_that_is_asked_to_stop_while_it_takes_over_leaves_the_journal_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = MemoryEngine()
    create = engine.create

    def create_and_stop(position: int, pieces: Sequence[Piece]) -> bool:
        """Create a record; a signal comes after the first one, the fence."""
        created = create(position, pieces)
        if position == 0:
            signal.raise_signal(signal.SIGTERM)
        return created

    monkeypatch.setattr(shards, "open_engine", lambda *_, **__: engine)
    monkeypatch.setattr(engine, "create", create_and_stop)

    assert own_shard(settings_in(tmp_path), threading.Event()) is None

    assert [decode_header(engine.records[position]).kind for position in sorted(engine.records)] == [
        RecordKind.FENCE,
        RecordKind.RELEASE,
    ]
