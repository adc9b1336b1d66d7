"""A dead letter, and which ones are meant, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from forebay.client.values.records import Record


class DeadLetterReason(StrEnum):
    """Why a record became a dead letter."""

    UNSPECIFIED = "UNSPECIFIED"
    REJECTED = "REJECTED"
    """The consumer said that the target will never take it."""

    MAX_ATTEMPTS = "MAX_ATTEMPTS"
    """It failed `max_attempts` times."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that its target never took, and what is known of that."""

    partition: int
    """Partition of the dead-letter sink."""

    offset: int
    """Offset in the dead-letter sink."""

    reason: DeadLetterReason
    error: str
    """What the target said, or what the last failure was."""

    attempts: int
    """Tries that failed."""

    subscription: str
    """The subscription that it came from."""

    origin_incarnation: str
    origin_partition: int
    origin_offset: int
    time: datetime
    """When it became a dead letter."""

    traceparent: str
    """W3C context of its publisher, or empty."""

    record: Record
    """As it was published."""

    uncut: str = ""
    """Why it could not be cut out of its page, or empty. If set, ``record.value`` is the body of that whole page, or
    empty where another dead letter of the page holds it; it is not redriven."""


class DeadLetterFilter(TypedDict, total=False):
    """Which dead letters are meant, as keywords: those that fit all that is given."""

    reason: DeadLetterReason | str
    error_contains: str
    """A part of the error text."""

    subscription: str
    """The subscription that they came from."""

    partition: int
    """Partition of the origin."""

    first_offset: int
    """Offsets in the origin, from here on ..."""

    last_offset: int
    """... to here, included."""

    from_time: datetime
    """They became dead letters at or after this ..."""

    until_time: datetime
    """... and before this."""
