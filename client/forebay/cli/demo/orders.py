"""How the demo speaks to a child of its own: through the child's standard input.

A line says begin, the end says finish. So a child also finishes when the demo is gone.
"""

from __future__ import annotations

import os
import select
import sys


class Orders:
    """What the demo says on standard input: a line to begin, the end of it to finish."""

    def __init__(self) -> None:
        self.over = False
        """Standard input has ended."""

    def wait(self, seconds: float | None) -> bool:
        """Wait for a line or the end, at most ``seconds``; return whether the end has come, now or before."""
        if not self.over:
            ready, _, _ = select.select([sys.stdin], [], [], None if seconds is None else max(0.0, seconds))
            self.over = bool(ready) and os.read(sys.stdin.fileno(), 4096) == b""
        return self.over
