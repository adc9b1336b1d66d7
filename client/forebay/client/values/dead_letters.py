"""Dead letters and the filter that selects them, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from forebay.client.values.records import Record


class DeadLetterReason(StrEnum):
    """Reason for which a record became a dead letter."""

    UNSPECIFIED = "UNSPECIFIED"
    REJECTED = "REJECTED"
    """The consumer rejected the record permanently."""

    MAX_ATTEMPTS = "MAX_ATTEMPTS"
    """The record failed ``max_attempts`` times."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Record that could not be delivered, with the facts of its failure."""

    partition: int
    """Partition of the dead-letter sink."""

    offset: int
    """Offset in the dead-letter sink."""

    reason: DeadLetterReason
    error: str
    """Error text of the target, or the cause of the last failure."""

    attempts: int
    """Number of failed attempts."""

    subscription: str
    """Subscription that the record came from."""

    origin_incarnation: str
    origin_partition: int
    origin_offset: int
    time: datetime
    """Time at which the record became a dead letter."""

    traceparent: str
    """W3C trace context of the publisher, or empty."""

    record: Record
    """Record as it was published."""

    uncut: str = ""
    """Reason that the record could not be extracted from its page, or empty.

    If set, ``record.value`` is the body of the whole page, or empty where another dead letter holds that body. Such a
    dead letter cannot be redriven.
    """


class DeadLetterFilter(TypedDict, total=False):
    """Filter of dead letters, as keywords; a dead letter must match all that are given."""

    reason: DeadLetterReason | str
    error_contains: str
    """Substring of the error text."""

    error: str
    """Exact error text."""

    subscription: str
    """Subscription that the records came from."""

    partition: int
    """Partition in the sink of origin."""

    first_offset: int
    """First offset in the sink of origin."""

    last_offset: int
    """Last offset in the sink of origin, included."""

    from_time: datetime
    """Earliest time at which the records became dead letters, included."""

    until_time: datetime
    """Latest time at which the records became dead letters, excluded."""
