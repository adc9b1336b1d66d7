"""Failures of checks, and comparisons that raise them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

V = TypeVar("V")


class Violation(Exception):
    """An answer of the broker that the contract does not allow."""


def equal(found: V, wanted: V, of_what: str) -> None:
    """Raise `Violation` unless two values are equal."""
    if found != wanted:
        raise Violation(f"{of_what} is {found!r}, must be {wanted!r}")


def exactly(count: int, found: Sequence[V], of_what: str) -> list[V]:
    """Return ``found`` as a list. Raises `Violation` unless it has ``count`` elements."""
    if len(found) != count:
        raise Violation(f"{of_what}: {len(found)}, must be {count}")
    return list(found)


def that(holds: object, otherwise: str) -> None:
    """Raise `Violation` with the text ``otherwise`` unless the condition holds."""
    if not holds:
        raise Violation(otherwise)
