"""Every option of a command that a document names exists: alone in a code span, or in a command line of `forebay`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from forebay.cli.app import app

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = ("*.md", "docs/**/*.md", "broker/**/*.md", "client/**/*.md", "compose/**/*.md")

FOREIGN: Final = frozenset({"--archives", "--enable-feature", "--files", "--json", "--py-files"})
"""Options that documents name alone: of Spark and Prometheus, and one that the changes say is gone."""

OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND: Final = re.compile(r"(?:^|[(`;|&]|\$\(|\s)forebay ([a-z][^`|;&)#]*)")


def options(command: Any) -> set[str]:
    """Return the names of the options of a command itself."""
    return {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}


def tree(command: Any) -> Iterator[Any]:
    """Yield a command and those below it."""
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from tree(below)


ALL: Final = {name for command in tree(get_command(app)) for name in options(command)}


def documents() -> list[Path]:
    """Return the documents by path."""
    return sorted({path for place in PLACES for path in ROOT.glob(place)})


def unknown_of(line: str) -> set[str]:
    """Return the options of a command line, without its first word, that the command does not have."""
    command: Any = get_command(app)
    known = options(command)
    for word in line.split():
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        known |= options(command)
    return set(OPTION.findall(line)) - known


def unknown_in(text: str) -> set[str]:
    """Return the options that a document names and that do not exist."""
    joined = text.replace("\\\n", " ")
    alone = {OPTION.match(span) for span in re.findall(r"`(--[^`\n]*)`", joined)}
    found = {match.group() for match in alone if match is not None} - ALL - FOREIGN
    for line in joined.splitlines():
        for words in COMMAND.findall(line):
            found |= unknown_of(words)
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_options_that_a_document_names_exist(path: Path) -> None:
    assert unknown_in(path.read_text()) == set()


@pytest.mark.parametrize(
    "text",
    [
        "With `--console-writes` sinks can be paused.",
        "    forebay lag orders --interval-s 2s",
        "Run `forebay sink create orders --partition 4`.",
        "    forebay publish orders \\\n      --keys 7",
    ],
)
def test_an_option_that_does_not_exist_is_found(text: str) -> None:
    assert len(unknown_in(text)) == 1


def test_an_option_of_another_program_on_the_same_line_is_no_concern() -> None:
    assert unknown_in("forebay lag -o json | jq --raw-output .[]") == set()
