"""What the exit codes mean, and which error leads to which.

Scripts decide by the code, so a code never changes its meaning. The table is the whole truth: an error that
is not in it is a failure of the program and not of its user.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Why a command ended."""

    OK = 0
    """It did what was asked."""

    FAILED = 1
    """It ran and failed, or found something inconsistent."""

    USAGE = 2
    """The command line, a setting or an input file is wrong; the same call will fail again."""

    NOT_FOUND = 3
    """A sink, a subscription or a file does not exist."""

    UNAVAILABLE = 4
    """The broker cannot be reached, is stopping, or did not answer in time; the same call may work later."""

    REFUSED = 5
    """The broker answered and refused: full, exists with other settings, not empty, trimmed, fenced."""

    LACKING = 6
    """This machine lacks something: an extra of the package, or Java."""

    INTERRUPTED = 130
    """Ctrl-C."""
