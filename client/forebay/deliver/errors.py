"""What can go wrong before, or instead of, delivering.

    DeliverError
    ├── UnknownTarget      name one of those that exist
    ├── TargetUnusable     install or mend what the message names
    ├── InvalidOption      correct the option
    └── TargetGone         nothing more can be sent: the deliverer stops

A failed delivery is not among them: that is an `Outcome`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeliverError(Exception):
    """Anything that keeps a deliverer from working."""


class UnknownTarget(DeliverError):
    """There is no target of this name. Name one of ``known``, or a ``module:attribute`` of your own."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no target {name!r}; there are {', '.join(known)}, or name one as module:attribute")
        self.name = name
        self.known = tuple(known)


class TargetUnusable(DeliverError):
    """The target exists and cannot be used. Install or mend what ``problem`` names."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"target {name!r} cannot be used: {problem}")
        self.name = name
        self.problem = problem


class InvalidOption(DeliverError):
    """An option is missing, unknown or wrong. Correct it."""

    def __init__(self, target: str, option: str, problem: str) -> None:
        super().__init__(f"target {target!r}, option {option!r}: {problem}")
        self.target = target
        self.option = option
        self.problem = problem


class TargetGone(DeliverError):
    """Raised by a target that can never send again, such as a closed pipe: the deliverer stops, nothing is
    settled.
    """
