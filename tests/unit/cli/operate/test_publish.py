"""`forebay publish` shows its progress in a terminal: the bytes of a file, or the number of values."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.terminal.answers import Terminal

LINES = b"\r\n".join(b"%03d" % number for number in range(100)) + b"\r\n"


def published(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Publish to a new broker; return what the terminal got, and the result."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with BrokerServer.in_memory() as broker:
        assert run(["sink", "create", "orders", "-s", "partitions=1", "-e", broker.endpoint]) == ExitCode.OK
        capsys.readouterr()
        monkeypatch.setattr("sys.stderr", terminal := Terminal())
        assert run(["publish", "orders", *words, "-e", broker.endpoint]) == ExitCode.OK
    return terminal.plain(), capsys.readouterr().out


@pytest.mark.parametrize(("words", "records"), [([], "100"), (["--whole"], "1")], ids=["lines", "whole"])
def test_a_file_is_shown_by_its_bytes(
    words: list[str], records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").write_bytes(LINES)

    shown, result = published(["--file", str(tmp_path / "lines"), *words], monkeypatch, capsys)

    assert re.findall(r"\d+/[\d?]+ \w+", shown)[-1] == "500/500 bytes"
    assert records in result.split()


def test_values_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown, _ = published(["a", "b", "c"], monkeypatch, capsys)

    assert re.findall(r"\d+/[\d?]+ \w+", shown)[-1] == "3/3 records"


def test_lines_of_a_pipe_are_counted_without_a_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = threading.Thread(target=pipe.write_bytes, args=(LINES,))
    writer.start()
    try:
        shown, _ = published(["--file", str(pipe)], monkeypatch, capsys)
    finally:
        writer.join()

    assert re.findall(r"\d+/[\d?]+ \w+", shown)[-1] == "100/? records"


def test_a_program_gets_no_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").write_bytes(LINES)

    shown, result = published(["--file", str(tmp_path / "lines"), "-o", "json"], monkeypatch, capsys)

    assert shown == ""
    assert '"records": 100' in result
