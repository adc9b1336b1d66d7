"""The start of a broker with a journal."""

from __future__ import annotations

from contextlib import closing
from errno import EIO
from pathlib import Path

import pytest

from forebay.broker import shard as shards
from forebay.broker.settings import BrokerSettings, SettingsError, load
from forebay.broker.shard import own_shard
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.engines.memory import MemoryEngine


def settings_in(directory: Path) -> BrokerSettings:
    return load(data_dir=directory / "data", journal=str(directory / "journal"), disk_reserve_bytes=0)


def test_a_journal_whose_directory_cannot_be_opened_for_a_time_is_owned_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = MemoryEngine()
    failures = [OSError(EIO, "the server does not answer") for _ in range(2)]

    def open_engine(text: str) -> Engine:
        if failures:
            raise failures.pop()
        return engine

    monkeypatch.setattr(shards, "open_engine", open_engine)
    monkeypatch.setattr(shards, "POLL_S", 0.001)
    store = own_shard(settings_in(tmp_path))

    assert store is not None
    with closing(store):
        assert store.engine is engine


@pytest.mark.parametrize("journal", ["file", "file/journal"])
def test_a_journal_whose_path_is_no_directory_is_refused(tmp_path: Path, journal: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError, match="journal = "):
        own_shard(load(data_dir=tmp_path / "data", journal=str(tmp_path / journal)))
