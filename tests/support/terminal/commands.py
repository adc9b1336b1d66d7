"""Every command of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from forebay.cli.app import app


def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Return every command with its words, for example ``("sink", "show")``."""
    return list(_leaves(get_command(app)))


def groups() -> list[tuple[tuple[str, ...], Any]]:
    """Return every group of commands with its words; the program itself has none."""
    root: Any = get_command(app)
    return [((), root), *(((name,), found) for name, found in root.commands.items() if hasattr(found, "commands"))]


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in getattr(command, "commands", {}).items():
        yield from _leaves(found, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command
