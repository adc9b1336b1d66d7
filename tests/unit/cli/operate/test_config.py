"""`forebay config check` ends with a code that scripts can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode


def test_a_valid_file_ends_with_0_and_shows_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text("drain_s = 5\n[sink_defaults]\npartitions = 4\n")

    assert run(["config", "check", str(file)]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "sink_defaults.partitions" in out
    assert "is valid" in out


def test_a_wrong_file_ends_with_2_and_all_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text("drain = 5\nsinks_max = 0\n")

    assert run(["config", "check", str(file), "-o", "json"]) == ExitCode.USAGE
    found = json.loads(capsys.readouterr().out)
    assert run(["config", "check", str(file)]) == ExitCode.USAGE

    assert found["valid"] is False
    assert [one["setting"] for one in found["problems"]] == ["drain", "sinks_max"]
    assert "did you mean drain_s?" in capsys.readouterr().out


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    assert run(["config", "check", str(tmp_path / "none.toml")]) == ExitCode.NOT_FOUND


def test_a_folder_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", str(tmp_path)]) == ExitCode.FAILED
    assert "cannot be read" in capsys.readouterr().err
