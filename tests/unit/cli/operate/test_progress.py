"""A bar counts what a long command has done, in a terminal only."""

from __future__ import annotations

import io
import re

import pytest

from forebay.cli.operate.progress import STEP, shown_bytes, shown_count, shown_partitions
from forebay.cli.output import JSON_MESSAGES
from tests.support.terminal.answers import Terminal


def count(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with shown_count("publish to [orders]", STEP + 7) as advance:
        for _ in range(STEP + 7):
            advance(1)
    with shown_bytes("read [orders]", 7) as advance:
        advance(7)
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


def test_a_total_that_was_too_low_grows_with_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with shown_count("redrive orders", 5) as advance:
        advance(STEP + 7)
    with shown_bytes("publish to orders", 1_000_000) as advance:
        advance(4_000_000)

    assert re.findall(r"\d+/\d+ records", terminal.plain())[-1] == f"{STEP + 7}/{STEP + 7} records"
    assert "4.0/4.0 MB" in terminal.plain()


def test_a_bar_of_bytes_has_their_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with shown_bytes("publish to [orders]", 3_000_000) as advance:
        advance(1_500_000)

    assert "publish to [orders]" in terminal.plain()
    assert "1.5/3.0 MB" in terminal.plain()
    assert "records" not in terminal.plain()


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(io.StringIO(), monkeypatch) == ""


def test_a_command_for_programs_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    token = JSON_MESSAGES.set(True)
    try:
        assert count(Terminal(), monkeypatch) == ""
    finally:
        JSON_MESSAGES.reset(token)
