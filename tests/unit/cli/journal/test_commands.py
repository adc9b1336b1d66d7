"""Commands on a journal: their results, and the exit codes of what they refuse."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines import addresses
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.storage.checkpointed import own
from tests.support.storage.disk_directory import SMALL_STORE
from tests.support.storage.moved import data_in, filled


class Commands:
    """Commands on one journal."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.journal = folder / "journal"
        self._capsys = capsys

    def code(self, name: str, directory: Path, *words: str) -> int:
        self._capsys.readouterr()
        return run(["journal", name, "--journal", str(self.journal), "--data-dir", str(directory), *words])

    def json(self, name: str, directory: Path) -> Any:
        assert self.code(name, directory, "-o", "json") == ExitCode.OK
        return json.loads(self._capsys.readouterr().out)

    def output(self) -> str:
        return self._capsys.readouterr().out

    def error(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


def test_a_directory_goes_into_a_journal_and_returns(commands: Commands, tmp_path: Path) -> None:
    directory = filled(tmp_path / "old")

    imported = commands.json("import", directory)
    exported = commands.json("export", tmp_path / "out")

    assert (imported["sinks"], imported["was_complete"]) == (3, False)
    assert (exported["sinks"], exported["was_ended"]) == (3, False)
    assert data_in(tmp_path / "out") == data_in(directory)


def test_both_commands_say_what_to_start_next(commands: Commands, tmp_path: Path) -> None:
    directory = filled(tmp_path / "old")

    assert commands.code("import", directory) == ExitCode.OK
    assert f"do not serve {directory} any more" in commands.error()
    assert commands.code("import", directory) == ExitCode.OK
    assert "nothing was done" in commands.output()
    assert commands.code("export", tmp_path / "out") == ExitCode.OK
    assert f"`forebay serve --data-dir {tmp_path}/out`, without a journal" in commands.error()


def test_an_import_of_a_directory_in_use_is_refused(commands: Commands, tmp_path: Path) -> None:
    with closing(RocksStore(filled(tmp_path / "old"), settings=SMALL_STORE)):
        assert commands.code("import", tmp_path / "old") == ExitCode.REFUSED

    assert "is in use by process" in commands.error()


def test_an_import_into_a_journal_with_records_is_refused(commands: Commands, tmp_path: Path) -> None:
    with closing(own(DirectoryEngine(commands.journal), tmp_path / "shard")) as store:
        store.commit([], [Put(Family.META, b"key", b"1")])

    assert commands.code("import", filled(tmp_path / "old")) == ExitCode.REFUSED
    assert "it has records; nothing was changed" in commands.error()


def test_an_import_of_something_else_is_not_found(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()

    assert commands.code("import", tmp_path / "photos") == ExitCode.NOT_FOUND
    assert "not a data directory" in commands.error()
    assert commands.code("import", tmp_path / "misspelt") == ExitCode.NOT_FOUND
    assert "misspelt does not exist: pass the data directory of a broker" in commands.error()


def test_a_file_in_place_of_a_journal_is_named(commands: Commands, tmp_path: Path) -> None:
    commands.journal.touch()

    assert commands.code("import", filled(tmp_path / "old")) == ExitCode.FAILED
    assert commands.error().startswith(f"forebay: {commands.journal}")
    assert "Errno" not in commands.error()


@pytest.mark.parametrize("command", ["import", "export"])
def test_the_help_names_all_kinds_of_journals(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["journal", command, "--help"])

    shown = capsys.readouterr().out
    assert all(scheme in shown for scheme in ("a directory", "s3://", "gs://", "az://", "kafka://HOST:PORT/TOPIC"))


def test_an_import_of_a_replica_is_wrong_usage(commands: Commands, tmp_path: Path) -> None:
    with closing(own(DirectoryEngine(tmp_path / "another"), tmp_path / "shard")) as store:
        store.commit([], [Put(Family.META, b"key", b"1")])

    assert commands.code("import", tmp_path / "shard") == ExitCode.USAGE
    assert "already follows a journal" in commands.error()


def test_an_export_into_a_directory_with_files_is_wrong_usage(commands: Commands, tmp_path: Path) -> None:
    own(DirectoryEngine(commands.journal), tmp_path / "shard").close()

    assert commands.code("export", tmp_path / "shard") == ExitCode.USAGE
    assert "is not empty" in commands.error()


def test_an_export_of_a_journal_with_a_living_owner_is_refused(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(own(DirectoryEngine(commands.journal), tmp_path / "shard")) as store:

        def append(seconds: float) -> None:
            store.commit([], [Put(Family.META, b"key", b"1")])

        monkeypatch.setattr("forebay.cli.journal.commands.time.sleep", append)
        code = commands.code("export", tmp_path / "out", "--takeover-after", "300ms")

    assert code == ExitCode.REFUSED
    assert "stop all brokers of the shard" in commands.error()


def test_an_export_of_a_journal_that_does_not_exist_makes_none(commands: Commands, tmp_path: Path) -> None:
    assert commands.code("export", tmp_path / "out") == ExitCode.NOT_FOUND
    assert "does not exist" in commands.error()
    assert not commands.journal.exists()


def test_an_export_of_an_empty_journal_is_not_found(commands: Commands, tmp_path: Path) -> None:
    commands.journal.mkdir()

    assert commands.code("export", tmp_path / "out") == ExitCode.NOT_FOUND
    assert "the journal does not exist; check the address, and that its file system is mounted" in commands.error()
    assert list(commands.journal.iterdir()) == []


def test_a_journal_that_does_not_answer_is_named_once(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_engine(text: str, *, creates: bool = True) -> Engine:
        raise EngineAway("no route", text)

    monkeypatch.setattr(addresses, "open_engine", open_engine)

    assert commands.code("export", tmp_path / "out") == ExitCode.UNAVAILABLE
    assert commands.error() == f"forebay: journal {commands.journal} does not answer: no route\n"


def test_a_journal_of_an_unknown_kind_is_wrong_usage(commands: Commands, tmp_path: Path) -> None:
    code = run(["journal", "import", "--journal", "ftp://host/x", "--data-dir", str(filled(tmp_path / "old"))])

    assert code == ExitCode.USAGE
    assert "scheme is 'ftp'" in commands.error()


def test_a_journal_that_lets_several_writers_win_is_refused_before_anything_is_written(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectoryEngine, "race", lambda engine, name: True)

    assert commands.code("import", filled(tmp_path / "old")) == ExitCode.USAGE
    assert "writers created the same object" in commands.error().replace("\n", " ")
    assert [path.name for path in commands.journal.iterdir()] == ["races"]


def test_a_journal_that_is_a_file_ends_the_command_with_one_sentence(commands: Commands, tmp_path: Path) -> None:
    commands.journal.write_text("of another")

    assert commands.code("import", filled(tmp_path / "old")) == ExitCode.FAILED
    assert commands.error().count("\n") == 1
