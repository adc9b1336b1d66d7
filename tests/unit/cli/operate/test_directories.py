"""Commands on a data directory report what they cannot read, in a sentence or for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.cli import run
from forebay.cli.exits import ExitCode


@pytest.fixture
def incomplete(tmp_path: Path) -> Path:
    """A data directory without its database."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "FORMAT").write_text("3\n")
    return directory


COMMANDS = [
    (["verify"], ExitCode.USAGE),
    (["repair", "--into", "new"], ExitCode.FAILED),
    (["quarantine", "list"], ExitCode.FAILED),
    (["quarantine", "export", "--into", "pages"], ExitCode.FAILED),
]


@pytest.mark.parametrize(("words", "code"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_an_error_of_the_file_system_is_reported_with_the_file(
    words: list[str],
    code: ExitCode,
    incomplete: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*words, "--data-dir", str(incomplete)]
    text = f"{incomplete / 'db'}: No such file or directory"
    (by_text := incomplete.parent / "text").mkdir()
    (by_json := incomplete.parent / "json").mkdir()

    monkeypatch.chdir(by_text)
    assert run(words) == code
    assert capsys.readouterr().err == f"forebay: {text}\n"
    monkeypatch.chdir(by_json)
    assert run([*words, "-o", "json"]) == code
    assert json.loads(capsys.readouterr().err)["message"] == text


def test_a_directory_in_use_is_one_json_object_with_a_reason_and_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = RocksStore(tmp_path / "data")
    try:
        assert run(["verify", "--data-dir", str(tmp_path / "data"), "-o", "json"]) == ExitCode.REFUSED
    finally:
        opened.close()

    found = json.loads(capsys.readouterr().err)
    assert (found["reason"], found["facts"]["directory"]) == ("STORE_LOCKED", str(tmp_path / "data"))
    assert {*found["facts"]} == {"directory", "pid"}


def test_one_finding_is_no_plural(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RocksStore(tmp_path / "data").close()
    (tmp_path / "data" / "bulk").rmdir()

    assert run(["verify", "--data-dir", str(tmp_path / "data")]) == ExitCode.FAILED

    assert capsys.readouterr().out.splitlines()[-2:] == ["the folder `bulk` is missing", "1 finding"]


def test_a_database_that_cannot_be_opened_has_a_reason_with_the_exit_code_of_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RocksStore(tmp_path / "data").close()
    (tmp_path / "data" / "db" / "CURRENT").write_bytes(b"MANIFEST-999999\n")

    assert run(["verify", "--data-dir", str(tmp_path / "data"), "-o", "json"]) == ExitCode.USAGE

    found = json.loads(capsys.readouterr().err)
    assert (found["reason"], found["exit_code"]) == ("STORE_CORRUPT", ExitCode.USAGE)
    assert found["facts"]["cause"] in found["message"]
