"""`forebay shard remove`: its preview, its question, its result, and the exit codes of what it refuses."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.shards import ShardHint
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from forebay.broker.storage.store.contract import Family, Put
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.storage.checkpointed import Checkpointed, own


class Fleet:
    """A fleet of the shards ``a`` and ``b`` without brokers, and the command on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.journal = folder / "journal"
        self.shard = DirectoryEngine(self.journal / "shards" / "b")
        self.directory = ShardDirectory(lambda: DirectoryEngine(self.journal))
        for shard in "ab":
            self.directory.put(ShardHint(shard, "h:1", 1))
        self._capsys = capsys

    def code(self, *words: str) -> int:
        self._capsys.readouterr()
        return run(["shard", "remove", *words, "--journal", str(self.journal), "--takeover-after", "300ms"])

    def output(self) -> str:
        return self._capsys.readouterr().out

    def json(self) -> Any:
        return json.loads(self.output())

    def error(self) -> str:
        return " ".join(self._capsys.readouterr().err.split())

    @property
    def shards(self) -> list[str]:
        return [hint.shard for hint in self.directory.read()]


@pytest.fixture
def fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fleet:
    return Fleet(tmp_path, capsys)


def test_a_shard_is_removed_and_its_journal_stays(fleet: Fleet, tmp_path: Path) -> None:
    own(fleet.shard, tmp_path / "b").close()

    assert fleet.code("b", "--yes", "-o", "json") == ExitCode.OK

    made = fleet.json()
    assert made == {
        "shard": "b",
        "journal": f"file://{fleet.journal}/shards/b",
        "sinks": 0,
        "was_removed": False,
        "journal_deleted": False,
    }
    assert fleet.shards == ["a"]


def test_the_command_says_where_the_journal_is_until_it_is_deleted(fleet: Fleet, tmp_path: Path) -> None:
    own(fleet.shard, tmp_path / "b").close()

    assert fleet.code("b", "--yes") == ExitCode.OK
    assert f"its journal is still at file://{fleet.journal}/shards/b" in fleet.error()
    assert fleet.code("b", "--yes", "--delete-journal") == ExitCode.OK
    assert fleet.output() == "the shard b was removed before; its journal is deleted\n"


def test_a_dry_run_changes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    own(fleet.shard, tmp_path / "b").close()
    before = list(fleet.shard.sizes(0, 1 << 63))

    assert fleet.code("b", "--dry-run", "--delete-journal") == ExitCode.OK

    assert "would remove the shard b with 0 sinks" in fleet.output()
    assert list(fleet.shard.sizes(0, 1 << 63)) == before
    assert fleet.shards == ["a", "b"]


def test_a_dry_run_for_scripts_has_its_facts(fleet: Fleet, tmp_path: Path) -> None:
    own(fleet.shard, tmp_path / "b").close()

    assert fleet.code("b", "--dry-run", "-o", "json") == ExitCode.OK

    found = fleet.json()
    assert (found["dry_run"], found["remove"], found["sinks"], found["delete_journal"]) == (True, "b", 0, False)


def test_without_a_terminal_it_has_to_be_confirmed(fleet: Fleet, tmp_path: Path) -> None:
    own(fleet.shard, tmp_path / "b").close()

    assert fleet.code("b") == ExitCode.USAGE
    assert "nothing was changed" in fleet.error()
    assert fleet.shards == ["a", "b"]


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",)])
def test_unsettled_records_are_refused_before_the_question(
    fleet: Fleet, tmp_path: Path, words: tuple[str, ...]
) -> None:
    Checkpointed(fleet.shard, tmp_path / "b").store.close()

    assert fleet.code("b", *words) == ExitCode.REFUSED
    assert "unsettled records in first (240)" in fleet.error()
    assert fleet.shards == ["a", "b"]


def test_a_living_owner_is_refused(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(own(fleet.shard, tmp_path / "b")) as store:

        def append(seconds: float) -> None:
            store.commit([], [Put(Family.META, b"key", b"1")])

        monkeypatch.setattr("forebay.cli.journal.removal.time.sleep", append)
        assert fleet.code("b", "--yes") == ExitCode.REFUSED

    assert "stop all brokers of the shard" in fleet.error()
    assert fleet.shards == ["a", "b"]


def test_a_shard_that_the_fleet_does_not_have_is_not_found(fleet: Fleet) -> None:
    assert fleet.code("c", "--yes") == ExitCode.NOT_FOUND
    assert "has no shard 'c'" in fleet.error()


def test_a_name_that_no_shard_can_have_is_wrong_usage(fleet: Fleet) -> None:
    assert fleet.code("../a", "--yes") == ExitCode.USAGE
    assert "'../a' is no name of a shard" in fleet.error()


def test_a_fleet_that_does_not_exist_is_not_found_and_not_made(fleet: Fleet, tmp_path: Path) -> None:
    assert run(["shard", "remove", "b", "--yes", "--journal", str(tmp_path / "typo")]) == ExitCode.NOT_FOUND
    assert "the journal does not exist; check the address, and that its file system is mounted" in fleet.error()
    assert not (tmp_path / "typo").exists()
