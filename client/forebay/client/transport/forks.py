"""Number of forks between the start of the interpreter and this process.

Objects with threads do not survive a fork. Comparing this number costs a tenth of asking the system for the process
id, which `Publisher.send` would do for each record.
"""

from __future__ import annotations

import os
from typing import Final


class Process:
    """This process."""

    __slots__ = ("forks",)

    def __init__(self) -> None:
        self.forks = 0
        """Increases in the child of each fork."""


def _in_child() -> None:
    PROCESS.forks += 1


PROCESS: Final = Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
