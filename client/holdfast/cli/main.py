"""Runs a command line and ends with the right exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from holdfast.cli.extras import needed_for
from holdfast.cli.output import say
from holdfast.cli.report import exit_code, known_errors, sentence
from holdfast.text import SafeFormatter


def run(argv: Sequence[str]) -> int:
    """Run ``holdfast`` with ``argv`` (without the program's name) and return its exit code."""
    if logging.lastResort is not None:  # where warnings go in commands that keep no log
        logging.lastResort.setFormatter(SafeFormatter("holdfast: %(message)s"))
    try:
        with needed_for("the command line", "cli"):
            from holdfast.cli.app import app
        app(args=list(argv), prog_name="holdfast")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except known_errors() as error:
        say(sentence(error))
        return exit_code(error)
    return 0


def main() -> None:
    """The entry point of the `holdfast` script."""
    sys.exit(run(sys.argv[1:]))
