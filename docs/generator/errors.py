"""Reference of errors: reasons, statuses, facts and advice of the table of reasons, and the classes of the client."""

from __future__ import annotations

from collections.abc import Iterable

from docs.generator.table import table
from forebay.client.transport.status import class_of
from forebay.errors.reasons import Reason


def reasons() -> str:
    """Return the table of reasons of the broker, by status."""
    found = sorted((reason.status, reason.name, reason) for reason in Reason if reason.status is not None)
    rows = [
        (_code([reason.name]), _code([status.name]), *_handling(reason), _code(reason.facts))
        for status, _, reason in found
    ]
    return table(("reason", "status", "class in Python", "retry", "meaning and recovery", "facts"), rows)


def client_errors() -> str:
    """Return the table of errors that the client raises by itself, without a reason of the broker."""
    rows = [(_code([reason.name]), *_handling(reason)) for reason in Reason if reason.status is None]
    return table(("reason", "class", "retry", "meaning and recovery"), rows)


def _handling(reason: Reason) -> tuple[str, str, str]:
    """Return the class, whether a retry helps, and the advice."""
    return _code([class_of(reason).__name__]), "yes" if reason.is_retryable else "no", reason.advice


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
