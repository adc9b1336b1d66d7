"""Guard process: kills the demo's child processes if the demo itself was killed.

    python -m forebay.cli.demo.processes.guard

It reads ``+PID`` for a started child (the leader of its own process group) and ``-PID`` for a child that ended and was
waited for. At the end of its standard input it kills the remaining groups, and exits.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def groups_left(lines: Iterable[str]) -> list[int]:
    """Return the groups that were started and have not ended, in the order of their start."""
    left: list[int] = []
    for line in lines:
        sign, number = line[:1], line[1:].strip()
        if number.isdigit():
            group = int(number)
            if sign == "+":
                left.append(group)
            elif sign == "-" and group in left:
                left.remove(group)
    return left


def main() -> int:
    """Run the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends only with its input
    for group in reversed(groups_left(sys.stdin)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
