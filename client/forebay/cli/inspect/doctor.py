"""`forebay doctor`: checks the environment of a user, one line per check, each with its advice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from forebay.cli.doctor.broker import broker_checks
from forebay.cli.doctor.check import Grade
from forebay.cli.doctor.environment import machine_checks, package_checks, variable_checks
from forebay.cli.exits import ExitCode
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm
from forebay.cli.output import Output, Styled, write_json, write_line, write_table
from forebay.state.numbers import counted

STYLES: Final[Mapping[Grade, str]] = {Grade.OK: "green", Grade.WARNING: "yellow", Grade.PROBLEM: "bold red"}


def doctor(
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Data directory on this machine whose disk is checked, too."),
    ] = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Check this environment: Python, extras and their versions, Java, variables, limits, and the broker.

    The broker is checked with the same address, TLS and token as every command uses: whether it answers, its version,
    its clock, and what it reports about its disk, memory, reads and background work. Exit code 0: no problem, 1: a
    problem.
    """
    found = [*package_checks(), *variable_checks(), *machine_checks(), *broker_checks(endpoint, data_dir)]
    problems = sum(one.grade is Grade.PROBLEM for one in found)
    if output is Output.JSON:
        write_json({"problems": problems, "checks": found})
    else:
        rows: list[tuple[object, ...]] = []
        for one in found:
            rows.append((Styled(one.grade.value, STYLES[one.grade]), one.subject, one.text))
            if one.advice:
                rows.append(("", "", f"→ {one.advice}"))
        write_table("", ("", "check", "result"), rows)
        warnings = sum(one.grade is Grade.WARNING for one in found)
        write_line(f"{counted(len(found), 'check')}: {counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    raise typer.Exit(ExitCode.FAILED if problems else ExitCode.OK)
