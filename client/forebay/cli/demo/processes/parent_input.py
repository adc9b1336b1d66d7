"""ParentInput of the demo to its child processes, through their standard input.

The first line means begin, the second that the flow is steady, the end of the input means finish. Therefore a child
also finishes when the demo has ended.
"""

from __future__ import annotations

import os
import select
import sys


class ParentInput:
    """ParentInput on standard input: a line to begin, its end to finish."""

    def __init__(self) -> None:
        self.has_ended = False
        """Standard input has ended."""

        self.lines = 0
        """Lines that were read."""

    def wait(self, seconds: float | None) -> bool:
        """Wait up to ``seconds`` for a line or the end; return True if the input has ended."""
        if not self.has_ended:
            ready, _, _ = select.select([sys.stdin], [], [], None if seconds is None else max(0.0, seconds))
            if ready:
                found = os.read(sys.stdin.fileno(), 4096)
                self.has_ended = found == b""
                self.lines += found.count(b"\n")
        return self.has_ended
