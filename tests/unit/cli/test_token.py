"""A token is shown once; the file of hashes knows it, belongs to its owner alone, and keeps what was there."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from holdfast.broker.core.tokens import parse
from holdfast.cli import run
from holdfast.cli.exits import ExitCode


def made(name: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["token", name, "--token-hashes-file", str(path), "-o", "json"]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == name
    return str(shown["token"])


def test_the_broker_knows_what_was_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"

    one, other = made("spark", path, capsys), made("deliverer", path, capsys)

    known = parse(path.read_text())
    assert (known.name_of(one), known.name_of(other)) == ("spark", "deliverer")
    assert one not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_whose_last_line_has_no_end_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    first = made("spark", path, capsys)
    path.write_text(path.read_text().rstrip("\n"))

    second = made("spark", path, capsys)

    known = parse(path.read_text())
    assert (known.name_of(first), known.name_of(second)) == ("spark", "spark")


def test_people_see_the_token_alone_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"

    assert run(["token", "spark", "--token-hashes-file", str(path)]) == ExitCode.OK

    shown = capsys.readouterr()
    assert parse(path.read_text()).name_of(shown.out.removesuffix("\n")) == "spark"
    assert "shown once" in shown.err


def test_a_name_or_a_file_that_cannot_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "two words", "--token-hashes-file", str(tmp_path / "tokens")]) == ExitCode.USAGE
    assert not (tmp_path / "tokens").exists()
    assert run(["token", "spark", "--token-hashes-file", str(tmp_path)]) == ExitCode.FAILED
    assert "cannot be written" in capsys.readouterr().err
