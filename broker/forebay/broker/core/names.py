"""Names of sinks, and ids of writers, consumers, subscriptions and requests: their required form."""

from __future__ import annotations

import re
from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

_SINK_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,122}")
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
ID_FORM: Final = "1 to 64 of [A-Za-z0-9._-]"
"""Form of an id, for errors."""
RESERVED_SUFFIX: Final = ".dlq"


def sink_name(name: str) -> str:
    """Return ``name`` if it is a valid sink name, else raise ``INVALID_SINK_NAME``."""
    if not _SINK_NAME.fullmatch(name):
        raise BrokerError(
            Reason.INVALID_SINK_NAME,
            f"{name[:140]!r} is not a sink's name: use [a-z0-9][a-z0-9._-]{{0,122}}",
            field="name",
            allowed=_SINK_NAME.pattern,
        )
    if name.endswith(RESERVED_SUFFIX):
        raise BrokerError(
            Reason.INVALID_SINK_NAME,
            f"{name!r}: the suffix {RESERVED_SUFFIX} is reserved",
            field="name",
            allowed=_SINK_NAME.pattern,
        )
    return name


def checked_request_id(text: str) -> str:
    """Return a request id, which may be empty; raises ``INVALID_SINK_NAME`` if it is invalid."""
    if text and not is_id(text):
        raise BrokerError(
            Reason.INVALID_SINK_NAME,
            f"{text[:80]!r} is not the id of a request: use 1 to 64 of [A-Za-z0-9._-], at random, or leave it out",
            field="request_id",
            allowed=_ID.pattern,
        )
    return text


def is_id(text: str) -> bool:
    """Return whether ``text`` is a valid id of a writer or consumer, or name of a subscription."""
    return _ID.fullmatch(text) is not None
