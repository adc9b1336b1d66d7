"""A bar counts what a long command has done, in a terminal only."""

from __future__ import annotations

import io

import pytest

from forebay.cli.operate.progress import STEP, shown_count
from forebay.cli.output import JSON_MESSAGES


class Terminal(io.StringIO):
    """Standard error of a user at a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def count(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, unit: str = "records") -> str:
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with shown_count("publish to orders", STEP + 7, unit=unit) as advance:
        for _ in range(STEP + 7):
            advance(1)
    return terminal.getvalue()


def test_a_terminal_shows_the_count_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = count(Terminal(), monkeypatch)

    assert "publish to orders" in shown
    assert f"{STEP + 7}/{STEP + 7}" in shown
    assert shown.rstrip().endswith("\x1b[2K")


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(io.StringIO(), monkeypatch) == ""


def test_a_command_for_programs_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    token = JSON_MESSAGES.set(True)
    try:
        assert count(Terminal(), monkeypatch) == ""
    finally:
        JSON_MESSAGES.reset(token)
