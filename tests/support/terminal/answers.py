"""Standard input of a user who answers questions at a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable


class Terminal(io.StringIO):
    """Input of a user at a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True

    def plain(self) -> str:
        """Return what was written to it, without colours and moves of the cursor."""
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self.getvalue())


class BusyTerminal:
    """Input of a user who says yes, while something happens at the broker."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        """Return True."""
        return True

    def readline(self) -> str:
        """Return the answer."""
        self._meanwhile()
        return "y\n"
