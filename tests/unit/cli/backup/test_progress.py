"""Progress of a backup on a terminal, and on a pipe."""

from __future__ import annotations

import os
from contextlib import redirect_stderr

import pytest

from forebay.cli.backup.progress import shown_progress

HALF = ("20260131T120000Z", 2_000_000, 1_000_000)


def test_a_terminal_shows_the_backup_and_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    ours, theirs = os.openpty()

    with os.fdopen(ours, "rb") as terminal, os.fdopen(theirs, "w") as written, redirect_stderr(written):
        with shown_progress() as show:
            show(*HALF)
        written.write("\nend\n")
        written.flush()
        shown = b""
        while not shown.endswith(b"end\r\n"):
            shown += terminal.readline()

    assert b"20260131T120000Z" in shown
    assert b"1.0/2.0 MB" in shown


def test_a_pipe_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as show:
        show(*HALF)

    assert capsys.readouterr() == ("", "")
