"""The engine in a directory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.directory import ABANDONED_S, DirectoryEngine
from tests.support.storage.engine_conformance import EngineConformance


class TestDirectoryEngine(EngineConformance):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return DirectoryEngine(tmp_path / "journal")


def test_records_are_files_that_sort_by_position_and_no_temporary_one_is_left(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path)
    for position in (10, 9, 10):
        engine.create(position, [b"x"])

    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "00000000000000000009",
        "00000000000000000010",
    ]


def test_a_temporary_file_that_a_writer_abandoned_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / ".new-old", tmp_path / ".new-new"
    for path in (old, new):
        path.touch()
    past = time.time() - ABANDONED_S - 10
    os.utime(old, (past, past))

    DirectoryEngine(tmp_path)

    assert not old.exists()
    assert new.exists()


def test_a_directory_that_is_gone_is_an_engine_that_is_unreachable_and_no_end_of_the_journal(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    (tmp_path / "journal").rename(tmp_path / "elsewhere")

    with pytest.raises(EngineAway):
        engine.read(0)
    with pytest.raises(EngineAway):
        engine.create(0, [b"x"])
