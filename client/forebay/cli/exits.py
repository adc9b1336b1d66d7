"""Exit codes of the commands.

Scripts depend on the codes, so a code never changes its meaning. An error without an entry here is a defect of the
program.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Result of a command."""

    OK = 0
    """Success."""

    FAILED = 1
    """The command failed, or found an inconsistency."""

    USAGE = 2
    """The command line, a setting or an input file is wrong; the same call fails again."""

    NOT_FOUND = 3
    """A sink, a subscription or a file does not exist."""

    UNAVAILABLE = 4
    """The broker is unreachable or stopping, or did not answer in time; a retry may succeed."""

    REFUSED = 5
    """The broker rejected the request: full, exists with other settings, not empty, trimmed, fenced."""

    MISSING = 6
    """A dependency is missing on this machine: an extra of the package, or Java."""

    INTERRUPTED = 130
    """Interrupted with Ctrl-C."""
