"""Confirmation of commands that destroy: a preview, a question at a terminal, ``--yes`` for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.output import Output, ask, can_ask, write_json, write_line
from forebay.cli.report import CommandFailed

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question; needed where there is no terminal.")]
"""``--yes``."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
"""``--dry-run``."""


def preview(effect: str, facts: Mapping[str, object], output: Output) -> None:
    """Write the result of a dry run."""
    if output is Output.JSON:
        write_json({"dry_run": True, **facts})
    else:
        write_line(f"would {effect}; nothing was changed")


def confirm(effect: str, *, yes: bool, output: Output) -> None:
    """Return if the caller agrees to ``effect``, which begins with a verb.

    Raises `CommandFailed` otherwise.
    """
    if yes:
        return
    if output is Output.JSON or not can_ask():
        raise CommandFailed(
            f"this would {effect}, and there is no terminal to confirm it: nothing was changed",
            ExitCode.USAGE,
            reason="NOT_CONFIRMED",
            advice="pass --yes, or --dry-run to see it only",
        )
    if not ask(f"This will {effect}. Continue?"):
        raise CommandFailed("nothing was changed", reason="NOT_CONFIRMED")
