"""A bar counts what a long command has done, in a terminal only."""

from __future__ import annotations

import io

import pytest

from forebay.cli.operate.progress import STEP, shown_count, shown_partitions
from forebay.cli.output import JSON_MESSAGES
from tests.support.terminal.answers import Terminal


def count(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with shown_count("publish to [orders]", STEP + 7) as advance:
        for _ in range(STEP + 7):
            advance(1)
    with shown_partitions("verify [orders]") as show:
        show(3, 0)
        show(3, 3)
    return terminal.getvalue()


def test_a_terminal_shows_the_counts_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = count(Terminal(), monkeypatch)

    assert "publish to [orders]" in shown
    assert f"{STEP + 7}/{STEP + 7}" in shown
    assert "verify [orders]" in shown
    assert "3/3" in shown
    assert shown.rstrip().endswith("\x1b[2K")


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(io.StringIO(), monkeypatch) == ""


def test_a_command_for_programs_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    token = JSON_MESSAGES.set(True)
    try:
        assert count(Terminal(), monkeypatch) == ""
    finally:
        JSON_MESSAGES.reset(token)
