"""The help of every command ends with an example, and every example is a command line that parses."""

from __future__ import annotations

import shlex
from typing import Any, Final

import pytest

from forebay.cli import run
from forebay.cli.command import EXAMPLE
from forebay.cli.exits import ExitCode
from tests.support.terminal.commands import commands, groups

EVERY: Final = commands()
NAMES: Final = [" ".join(words) for words, _ in EVERY]
GROUPS: Final = groups()


@pytest.mark.parametrize(("words", "command"), EVERY, ids=NAMES)
def test_every_command_has_an_example_that_parses(words: tuple[str, ...], command: Any) -> None:
    lines = [line.removeprefix(EXAMPLE) for line in (command.epilog or "").split("\n\n")]

    assert all(line.startswith(f"forebay {' '.join(words)}") for line in lines), lines
    for line in lines:
        parse(line)


@pytest.mark.parametrize(("words", "group"), GROUPS, ids=[" ".join(words) or "forebay" for words, _ in GROUPS])
def test_every_group_has_examples_of_its_commands_that_parse(words: tuple[str, ...], group: Any) -> None:
    paragraphs = (group.epilog or "").split("\n\n")
    lines = [line.removeprefix(EXAMPLE) for line in paragraphs if line.startswith(EXAMPLE)]

    assert lines
    assert all(line.startswith(" ".join(["forebay", *words, ""])) for line in lines), lines
    for line in lines:
        parse(line)


def parse(line: str) -> None:
    """Raise an error for a line with an unknown command or option, or with a wrong value."""
    _, *given = shlex.split(line)
    (found,) = [one for one in EVERY if given[: len(one[0])] == list(one[0])]
    words, command = found
    command.make_context(" ".join(words), given[len(words) :])


def test_the_help_shows_the_examples_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deliver", "--help"]) == ExitCode.OK
    out = " ".join(capsys.readouterr().out.split())

    assert "Example: forebay deliver orders --to file -O path=orders.jsonl" in out
