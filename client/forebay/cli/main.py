"""Runs a command line and returns its exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from forebay.cli.extras import needed_for
from forebay.cli.output import write_message
from forebay.cli.report import exit_code, known_errors, sentence
from forebay.text import SafeFormatter


def run(argv: Sequence[str]) -> int:
    """Run ``forebay`` with ``argv`` (without the program's name) and return its exit code."""
    if logging.lastResort is not None:  # destination of warnings in commands without a log
        logging.lastResort.setFormatter(SafeFormatter("forebay: %(message)s"))
    try:
        with needed_for("the command line", "cli"):
            from forebay.cli.app import app
        app(args=list(argv), prog_name="forebay")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except known_errors() as error:
        write_message(sentence(error))
        return exit_code(error)
    return 0


def main() -> None:
    """Entry point of the `forebay` script."""
    sys.exit(run(sys.argv[1:]))
