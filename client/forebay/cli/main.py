"""Runs a command line and returns its exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile

from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.output import JSON_MESSAGES, write_message, write_problem
from forebay.cli.report import exit_code, further_lines, known_errors, problem, sentence
from forebay.text import SafeFormatter, visible


def run(argv: Sequence[str]) -> int:
    """Run ``forebay`` with ``argv`` (without the program's name) and return its exit code."""
    if logging.lastResort is not None:  # destination of warnings in commands without a log
        logging.lastResort.setFormatter(SafeFormatter("forebay: %(message)s"))
    if not _wants_json(argv):
        return _run(argv)
    token = JSON_MESSAGES.set(True)
    try:
        return _run_for_programs(argv)
    finally:
        JSON_MESSAGES.reset(token)


def _run(argv: Sequence[str]) -> int:
    """Run a command whose errors are sentences."""
    try:
        with needed_for("the command line", "cli"):
            from typer import Abort
            from typer.exceptions import TyperException
            from typer.rich_utils import rich_abort_error, rich_format_error

            from forebay.cli.app import app
    except known_errors() as error:
        return _reported(error)
    try:
        code = app(args=list(argv), prog_name="forebay", standalone_mode=False)
    except TyperException as error:  # quotes the arguments
        error.message = visible(error.message)
        rich_format_error(error)  # type: ignore[arg-type]  # each is of the subclass that Typer does not export
        return error.exit_code
    except SystemExit as end:  # the reader of the output went away
        return end.code if isinstance(end.code, int) else ExitCode.FAILED
    except Abort:
        rich_abort_error()
        return ExitCode.FAILED
    except known_errors() as error:
        return _reported(error)
    return code if isinstance(code, int) else ExitCode.OK


def _reported(error: BaseException) -> int:
    write_message(sentence(error))
    for line in further_lines(error):
        write_message(line)
    return exit_code(error)


def _run_for_programs(argv: Sequence[str]) -> int:
    """Run a command whose errors are JSON objects, those of wrong usage, too."""
    try:
        with needed_for("the command line", "cli"):
            from typer.exceptions import TyperException

            from forebay.cli.app import app
    except known_errors() as error:
        write_problem(problem(error))
        return exit_code(error)
    try:
        code = app(args=list(argv), prog_name="forebay", standalone_mode=False)
    except TyperException as error:
        found = problem(error)
    except known_errors() as error:
        found = problem(error)
    else:
        return code if isinstance(code, int) else 0
    write_problem(found)
    return found["exit_code"]


def _wants_json(argv: Sequence[str]) -> bool:
    """Return True if the arguments contain ``-o json`` in one of its forms."""
    words = [word.lower() for word in takewhile(lambda word: word != "--", argv)]
    joined = {"-ojson", "--output=json"}
    return any(word in joined for word in words) or any(
        name in {"-o", "--output"} and value == "json" for name, value in pairwise(words)
    )


def main() -> None:
    """Entry point of the `forebay` script."""
    sys.exit(run(sys.argv[1:]))
