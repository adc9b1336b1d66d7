"""Bounds of each call's request, in one table. A call without a row has the tight bounds of a query.

Every request is checked before it is decoded; of a stream, every message. Bounds of the content (lengths of names,
ranges of one ack, headers of one record) are checked later, where it is used. They are below these bounds, so that the
error for a slightly too large request is specific.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.epochs.values import COMMITS_MAX, TOKENS_MAX

MESSAGE_BYTES_MAX: Final = 32 << 20
"""Largest message that the transport accepts."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a call's request: its bytes and its elements."""

    bytes_max: int = 64 << 10

    elements_max: int = 2_048
    """Total of sub-messages, map entries and elements of repeated fields."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Maximum of occurrences of a field in the whole request, by its dotted path."""

    def __post_init__(self) -> None:
        assert all(count <= self.elements_max for count in self.counts.values()), "a count above that of all elements"

    @property
    def harmless_bytes(self) -> int:
        """Size up to which a request cannot exceed the bounds: an element takes two bytes."""
        return 2 * min((self.elements_max, *self.counts.values()))


QUESTION: Final = Bounds()
"""Bounds of a query: names, numbers, settings, and offsets of each of 1,024 partitions."""

FOREIGN: Final = Bounds(bytes_max=4 << 10, elements_max=64)
"""Bounds of health and reflection, which are not services of Forebay."""

_ANSWERS: Final = Bounds(bytes_max=4 << 20, elements_max=100_000)
"""Ranges of offsets of several partitions."""

BOUNDS: Final[Mapping[str, Bounds]] = {
    "/forebay.v1.BufferService/Publish": Bounds(bytes_max=MESSAGE_BYTES_MAX),
    "/forebay.v1.BufferService/PublishBatch": Bounds(bytes_max=MESSAGE_BYTES_MAX, elements_max=400_000),
    "/forebay.v1.BufferService/Deliver": Bounds(bytes_max=1 << 20, elements_max=10_100),
    "/forebay.v1.BufferService/Ack": _ANSWERS,
    "/forebay.v1.BufferService/Nack": _ANSWERS,
    "/forebay.v1.BufferService/ExtendDeadline": _ANSWERS,
    "/forebay.v1.ResendService/LeaseResends": _ANSWERS,
    "/forebay.v1.ResendService/SettleResends": _ANSWERS,
    "/forebay.v1.SchemaService/RegisterSchema": Bounds(bytes_max=3 << 20),
    "/forebay.v1.EpochService/CommitEpoch": Bounds(
        bytes_max=MESSAGE_BYTES_MAX,
        elements_max=1_500_000,
        counts={"commits": 16 * COMMITS_MAX, "commits.tokens": 2 * TOKENS_MAX},
    ),
    "/forebay.v1.EpochService/AbortEpoch": Bounds(bytes_max=16 << 20, elements_max=2 * TOKENS_MAX),
}
"""Calls with larger bounds than a query."""


def bounds_of(method: str) -> Bounds:
    """Return the bounds of a call's requests, given its full name."""
    if not method.startswith("/forebay."):
        return FOREIGN
    return BOUNDS.get(method, QUESTION)
