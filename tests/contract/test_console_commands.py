"""Each command that a page of the console names exists, and takes the words that follow it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from forebay.cli.app import app

CONSOLE: Final = Path(__file__).resolve().parents[2] / "broker/forebay/broker/console"
STATE: Final = Path(__file__).resolve().parents[2] / "protos/forebay/state"


def named() -> Iterator[tuple[str, str]]:
    """Yield each command in the code and the templates, with a value in place of each expression."""
    for path in sorted([*CONSOLE.rglob("*.py"), *STATE.rglob("*.py")]):
        tree = ast.parse(path.read_text())
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield (
                    path.name,
                    "".join(
                        str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "1"
                        for part in node.values
                    ),
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield path.name, node.value
    for path in sorted(CONSOLE.rglob("*.html")):
        for text in re.findall(r"<code>(forebay [^<]*)</code>", path.read_text()):
            yield path.name, re.sub(r"\{\{[^}]*\}\}", "1", text)


COMMANDS: Final = sorted({(file, text) for file, text in named() if re.match(r"forebay [a-z]+( |$)", text)})


def test_the_commands_of_the_console_are_found() -> None:
    assert len(COMMANDS) > 15


@pytest.mark.parametrize(("file", "text"), COMMANDS)
def test_a_named_command_parses(file: str, text: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(text)[1:]
    while hasattr(command, "commands"):
        assert words[0] in command.commands, f"{file}: {text}"
        command = command.commands[words.pop(0)]

    command.make_context(text, words)  # raises for an unknown option and a missing argument
