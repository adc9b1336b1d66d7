"""The help of every command ends with an example, and every example is a command line that parses."""

from __future__ import annotations

import shlex
from typing import Any, Final

import pytest

from forebay.cli import run
from forebay.cli.command import EXAMPLE
from forebay.cli.exits import ExitCode
from tests.support.terminal.commands import commands

EVERY: Final = commands()
NAMES: Final = [" ".join(words) for words, _ in EVERY]


@pytest.mark.parametrize(("words", "command"), EVERY, ids=NAMES)
def test_every_command_has_an_example_that_parses(words: tuple[str, ...], command: Any) -> None:
    lines = [line.removeprefix(EXAMPLE) for line in (command.epilog or "").split("\n\n")]

    assert all(line.startswith(f"forebay {' '.join(words)}") for line in lines), lines
    for line in lines:
        given = shlex.split(line)[1 + len(words) :]
        command.make_context(" ".join(words), given)  # raises for an unknown option and a wrong value


def test_the_help_shows_the_examples_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deliver", "--help"]) == ExitCode.OK
    out = " ".join(capsys.readouterr().out.split())

    assert "Example: forebay deliver orders --to file -O path=orders.jsonl" in out
