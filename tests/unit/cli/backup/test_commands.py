"""Backup commands that need no broker: a target made by the storage itself, and their exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.repair.command import verify
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.storage.backed_up import BackedUp
from tests.support.storage.disk_directory import NAMES
from tests.support.terminal.answers import Terminal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a target with two complete backups and one that was stopped; no test changes it."""
    kept = BackedUp(tmp_path_factory.mktemp("made"))
    kept.back_up()
    kept.back_up(full=True)
    job = kept.backups.job(full=False, at_us=kept.clock(), busy=lambda: False)
    job.prepare()
    kept.store.close()
    return Path(kept.target_text)


class Commands:
    """Backup commands on one target."""

    def __init__(self, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.target = target
        self._capsys = capsys

    def code(self, *words: str) -> int:
        return run(["backup", *words, "--target", str(self.target)])

    def json(self, *words: str, code: ExitCode = ExitCode.OK) -> Any:
        self._capsys.readouterr()
        assert self.code(*words, "-o", "json") == code
        return json.loads(self._capsys.readouterr().out)

    def ids(self) -> list[str]:
        return [one["id"] for one in self.json("list") if one["state"] == "complete"]

    def error(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def commands(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(copytree(made, tmp_path / "target"), capsys)


def test_a_list_shows_complete_and_incomplete_backups_the_oldest_first(commands: Commands) -> None:
    first, second, stopped = commands.json("list")

    assert [one["state"] for one in (first, second, stopped)] == ["complete", "complete", "incomplete"]
    assert first["taken_at"] < second["taken_at"]
    assert (second["parent"], second["sinks"], second["records"]) == ("", len(NAMES), 720)
    assert (stopped["records"], stopped["taken_at"]) == (None, None)


def test_a_list_of_the_backups_of_several_stores_shows_their_ids(
    commands: Commands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.code("list") == ExitCode.OK
    of_one = capsys.readouterr().out
    other = BackedUp(tmp_path / "other", target=str(commands.target), store_id="7" * 32)
    other.back_up()
    other.store.close()

    assert commands.code("list") == ExitCode.OK
    of_two = capsys.readouterr().out

    assert ("store" in of_one, "55555555" in of_one) == (False, False)
    assert [word for word in of_two.split() if word in {"store", "5" * 8, "7" * 8}].count("5" * 8) == 2
    assert [of_two.count(" store "), of_two.count("7" * 8)] == [1, 1]
    assert {one["store_id"] for one in commands.json("list")} == {"5" * 32, "7" * 32, ""}


def test_a_sound_backup_is_clean_and_a_damaged_one_fails_the_command(commands: Commands) -> None:
    first, second = commands.ids()
    assert commands.json("verify", "--id", first)["clean"] is True
    pieces = find(open_target(str(commands.target)), second).pieces
    damaged = commands.target / next(piece.name for piece in pieces if piece.path.startswith("bulk/"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])

    report = commands.json("verify", code=ExitCode.FAILED)

    assert report["clean"] is False
    assert report["problems"]


def test_a_restored_directory_is_one_a_broker_can_start_on(commands: Commands, tmp_path: Path) -> None:
    report = commands.json("restore", "--into", str(tmp_path / "new"))

    assert report["backup"] == commands.ids()[-1]
    assert [sink["name"] for sink in report["sinks"]] == list(NAMES)
    assert verify(tmp_path / "new").clean


def test_a_terminal_shows_how_much_of_a_backup_is_read_and_verified(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    newest = commands.ids()[-1]
    monkeypatch.setattr("sys.stderr", verifying := Terminal())
    assert commands.code("verify") == ExitCode.OK
    monkeypatch.setattr("sys.stderr", restoring := Terminal())
    assert commands.code("restore", "--into", str(tmp_path / "new")) == ExitCode.OK
    monkeypatch.setattr("sys.stderr", for_programs := Terminal())
    assert commands.code("verify", "-o", "json") == ExitCode.OK

    count = len(NAMES)
    phases = rf"read {newest}.* ([\d.]+)/\1 .B .*verify {newest}.* {count}/{count} partitions"
    assert re.search(phases, _one_line(verifying))
    assert re.search(rf"restore {newest}.* ([\d.]+)/\1 .B", _one_line(restoring))
    assert for_programs.getvalue() == ""


def _one_line(terminal: Terminal) -> str:
    """Return what a terminal got, without colours and moves of the cursor."""
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|[\r\n]", "", terminal.getvalue())


def damage_a_page(commands: Commands) -> str:
    """Change a byte of a page in the newest backup; returns the path of its file in the data directory."""
    pieces = find(open_target(str(commands.target))).pieces
    *_, piece = (one for one in pieces if one.path.startswith("bulk/"))  # the pages of the last file are live
    content = bytearray((commands.target / piece.name).read_bytes())
    content[600] ^= 1
    (commands.target / piece.name).write_bytes(content)
    return piece.path


def test_a_damaged_backup_is_not_restored_by_default_and_its_file_is_named(commands: Commands, tmp_path: Path) -> None:
    damaged = damage_a_page(commands)

    assert commands.code("restore", "--into", str(tmp_path / "new")) != ExitCode.OK

    assert damaged in commands.error()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("treatment", "records"), [("skip", 710), ("remove", 690)])
def test_a_damaged_backup_is_restored_without_a_page_or_without_a_file_and_the_report_names_what_is_missing(
    commands: Commands, tmp_path: Path, treatment: str, records: int
) -> None:
    damaged = damage_a_page(commands)

    report = commands.json("restore", "--into", str(tmp_path / "new"), "--on-damage", treatment)

    assert [line.split()[0] for line in report["damaged"]] == [damaged]
    assert report["repaired"]
    found = verify(tmp_path / "new")
    assert found.clean
    assert sum(part.records for part in found.partitions) == records


def test_prune_keeps_the_newest(commands: Commands) -> None:
    first, second = commands.ids()

    assert commands.json("prune", "--keep-last", "1", "--yes")["backups"] == [first]
    assert commands.ids() == [second]


def test_prune_deletes_nothing_in_a_dry_run_or_without_a_confirmation(commands: Commands) -> None:
    before = commands.ids()

    assert commands.json("prune", "--keep-last", "1", "--dry-run")["backups"] == before[:1]
    assert commands.code("prune", "--keep-last", "1") == ExitCode.USAGE
    assert "--yes" in commands.error()
    assert commands.ids() == before


@pytest.mark.parametrize("words", [(), ("--sink", "first"), ("--into", "new", "--sink", "first", "--as", "again")])
def test_a_restore_needs_a_directory_or_a_sink_with_its_new_name(commands: Commands, words: tuple[str, ...]) -> None:
    assert commands.code("restore", *words) == ExitCode.USAGE
    assert "--into DIR" in commands.error()


def test_an_unknown_backup_is_not_found(commands: Commands) -> None:
    assert commands.code("verify", "--id", "no-such-backup") == ExitCode.NOT_FOUND
    assert "no-such-backup" in commands.error()


@pytest.mark.parametrize("words", [("list",), ("verify",), ("restore", "--into", "new"), ("prune", "--yes")])
@pytest.mark.parametrize("relative", [False, True])
def test_a_target_directory_that_does_not_exist_is_an_error_that_says_what_to_check(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    relative: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    target = "absent/backups" if relative else f"{tmp_path}/absent/backups"

    assert run(["backup", *words, "--target", target, "-o", "json"]) == ExitCode.NOT_FOUND

    out, err = capsys.readouterr()
    problem = json.loads(err)
    assert (out, problem["reason"], problem["facts"]) == ("", "TARGET_MISSING", {"target": target})
    assert f"{tmp_path}/absent/backups: the directory does not exist" in problem["message"]
    assert "check the path, and that its file system is mounted" in problem["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", [".", "empty", "file://{}/empty"])
def test_a_target_directory_without_a_backup_is_an_empty_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    assert run(["backup", "list", "--target", target.format(tmp_path), "-o", "json"]) == ExitCode.OK

    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("command", ["list", "verify", "prune"])
def test_a_command_without_a_target_says_how_to_name_one(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOREBAY_BACKUP_TARGET", raising=False)

    assert run(["backup", command]) == ExitCode.USAGE
    assert "FOREBAY_BACKUP_TARGET" in capsys.readouterr().err
