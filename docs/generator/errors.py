"""Reference of errors: reasons and statuses of the broker, classes and advice of the client."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docs.generator.facts import facts_of
from docs.generator.table import one_line, table
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.status import CODES
from forebay.client import errors
from forebay.client.errors import ForebayError


def reasons() -> str:
    """Return the table of reasons, by status."""
    classes = {kind.default_reason: kind for kind in _classes(ForebayError)}
    found = sorted(CODES.items(), key=lambda entry: (entry[1].value[0], entry[0].reason))
    rows = [
        (
            f"`{error.reason}`",
            f"`{code.name}`",
            _class(classes[error.reason]),
            _retry(error, classes[error.reason]),
            _advice(classes[error.reason]),
            ", ".join(f"`{name}`" for name in facts_of(error)),
        )
        for error, code in found
    ]
    return table(("reason", "status", "class in Python", "retry", "meaning and recovery", "facts"), rows)


def client_errors() -> str:
    """Return the table of errors that the client raises by itself, without a reason of the broker."""
    known = {error.reason for error in CODES}
    own = [kind for kind in _classes(ForebayError) if kind.default_reason not in known and kind.default_reason]
    rows = [(f"`{kind.default_reason}`", _class(kind), _yes(kind.retryable), _advice(kind)) for kind in own]
    return table(("reason", "class", "retry", "meaning and recovery"), rows)


def _classes(base: type[ForebayError]) -> Iterator[type[ForebayError]]:
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from _classes(kind)


def _class(kind: type[ForebayError]) -> str:
    return f"`{kind.__name__}`"


def _retry(error: type[BrokerError], kind: type[ForebayError]) -> str:
    return _yes(kind.retryable or error.retry_after_s is not None)


def _yes(retryable: bool) -> str:
    return "yes" if retryable else "no"


def _advice(kind: type[ForebayError]) -> str:
    return one_line(inspect.getdoc(kind) or "")
