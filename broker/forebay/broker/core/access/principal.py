"""Principal of a call: a name, the rights it has per sink, and its rate limits.

A right covers the sinks that a pattern matches. `*` in a pattern matches any characters. A pattern that matches a
sink matches its dead-letter sink too: a principal that may consume `orders` may consume `orders.dlq`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

DEAD_LETTERS: Final = ".dlq"
EVERY_SINK: Final = "*"
PATTERN: Final = re.compile(r"[a-z0-9*._-]{1,128}")
"""Characters of a sink's name, and `*`."""


class Right(StrEnum):
    """One kind of access to a sink."""

    PUBLISH = "publish"
    """Append records, stage and commit epochs, register schemas."""

    CONSUME = "consume"
    """Receive deliveries and settle them, create subscriptions."""

    REPLAY = "replay"
    """Read records without settling them: replay, peek, list dead letters."""

    VIEW = "view"
    """See settings, statistics, lag, gaps, schemas and epochs, but no record."""

    MANAGE = "manage"
    """Create, update, pause, seek, purge, redrive and delete."""

    ADMIN = "admin"
    """All of the above."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One right to the sinks that a pattern matches."""

    right: Right
    pattern: str

    def covers(self, right: Right, sink: str) -> bool:
        """Return whether this grant gives ``right`` to ``sink``."""
        return self.gives(right) and (
            _matches(self.pattern, sink) or _matches(self.pattern, sink.removesuffix(DEAD_LETTERS))
        )

    def gives(self, right: Right) -> bool:
        """Return whether this grant includes ``right``.

        ``ADMIN`` includes every right, and every right includes ``VIEW``.
        """
        return self.right in {right, Right.ADMIN} or right is Right.VIEW


@dataclass(frozen=True, slots=True)
class Limits:
    """Rate limits of a principal over all its connections; 0 is unlimited."""

    calls_per_s: int = 0
    """Calls, and messages of streams that are open."""

    bytes_per_s: int = 0
    """Bytes of requests and answers."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Identity of a caller with everything it may do."""

    name: str
    grants: tuple[Grant, ...]
    limits: Limits = Limits()

    def may(self, right: Right, sink: str) -> bool:
        """Return whether this principal has a right to a sink, whether or not the sink exists."""
        return any(grant.covers(right, sink) for grant in self.grants)

    def may_somewhere(self, right: Right) -> bool:
        """Return whether this principal has a right to at least one pattern of sinks."""
        return any(grant.gives(right) for grant in self.grants)


def anonymous(name: str = "anonymous") -> Principal:
    """Return the principal of a broker without access control: it may do everything."""
    return Principal(name, (Grant(Right.ADMIN, EVERY_SINK),))


def _matches(pattern: str, sink: str) -> bool:
    if pattern in {EVERY_SINK, sink}:
        return True
    return "*" in pattern and _compiled(pattern).fullmatch(sink) is not None


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
