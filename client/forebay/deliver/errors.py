"""Errors that prevent delivering.

    DeliverError
    ├── UnknownTarget      use one of the existing targets
    ├── TargetUnusable     install or correct what the message names
    ├── InvalidOption      correct the option
    ├── TargetClosed       nothing more can be sent: the deliverer stops
    └── PlanInvalid        correct the file of deliveries

A failed delivery is not an error, but an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Sequence


class DeliverError(Exception):
    """Base of the errors of the deliverer."""


class UnknownTarget(DeliverError):
    """The target does not exist. Use one of ``known``, or your own ``module:attribute``."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown target {name!r}: must be one of {', '.join(known)}, or module:attribute")
        self.name = name
        self.known = tuple(known)


class TargetUnusable(DeliverError):
    """The target cannot be used. Install or correct what ``problem`` names."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"target {name!r} cannot be used: {problem}")
        self.name = name
        self.problem = problem


class InvalidOption(DeliverError):
    """An option is missing, unknown or invalid. Correct it."""

    def __init__(self, target: str, option: str, problem: str) -> None:
        super().__init__(f"target {target!r}, option {option!r}: {problem}")
        self.target = target
        self.option = option
        self.problem = problem


class PlanInvalid(DeliverError):
    """A file of deliveries is wrong. Correct every one of ``problems``."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        super().__init__(f"{path}: {'; '.join(problems)}")
        self.path = path
        self.problems = tuple(problems)


class TargetClosed(DeliverError):
    """The target can never send again, for example after a closed pipe.

    Raised by a target: the deliverer stops, and the records are not settled.
    """
