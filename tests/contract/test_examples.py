"""The help of every command ends with an example, and every example is a command line that parses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
from typer.main import get_command

from forebay.cli import run
from forebay.cli.app import app
from forebay.cli.command import EXAMPLE
from forebay.cli.exits import ExitCode


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of the tree with its words."""
    for name, found in getattr(command, "commands", {}).items():
        yield from leaves(found, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


EVERY: Final = list(leaves(get_command(app)))
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
