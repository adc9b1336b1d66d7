"""Options that every command shares are added in one place."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from forebay.cli import run
from forebay.cli.app import app
from forebay.cli.command import Command
from forebay.cli.exits import ExitCode


def commands() -> dict[str, Any]:
    """Return all commands by their words."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: str) -> None:
        below = getattr(command, "commands", None)
        if below is None:
            found[words.strip()] = command
        for name, one in (below or {}).items():
            walk(one, f"{words} {name}")

    walk(typer.main.get_command(app), "")
    return found


def test_every_command_that_calls_a_broker_can_wait_for_it() -> None:
    found = commands()
    assert all(isinstance(one, Command) for one in found.values())
    waiting = {words for words, one in found.items() if any(param.name == "wait" for param in one.params)}
    calling = {words for words, one in found.items() if any(param.name == "endpoint" for param in one.params)}

    assert waiting == calling
    assert {"publish", "sink create", "backup restore", "bench"} <= calling
    assert "serve" not in calling


def test_a_wait_that_is_no_duration_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "--wait", "soon"]) == ExitCode.USAGE
    assert "'soon'" in capsys.readouterr().err
