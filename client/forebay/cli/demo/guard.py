"""The process that ends the demo's children when the demo itself was killed and could not.

    python -m forebay.cli.demo.guard

It reads ``+PID`` for a child that was started (the leader of a process group of its own) and ``-PID`` for one that has
ended and was waited for. When its standard input ends it kills the groups that are left, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def groups_left(lines: Iterable[str]) -> list[int]:
    """The groups that were started and have not ended, in the order of their start."""
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
    """Run the process; see the module's text."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with its input, and nothing else
    for group in reversed(groups_left(sys.stdin)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
