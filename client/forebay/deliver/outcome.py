"""Outcome of sending a batch to a target.

A target returns one of three values; the deliverer decides about acks, redelivery and dead letters. The counts of an
outcome refer to the front of the batch, because order is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The target has accepted every record of the batch permanently."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The target could not accept the records now. They stay in the buffer and are redelivered."""

    reason: str
    """Cause for users, without payload and credentials; shown in the sink's statistics."""

    delay_s: float | None = None
    """Minimum delay of the redelivery in seconds; ``None`` applies the sink's back-off."""

    delivered: int = 0
    """Number of records at the front of the batch that were accepted before the failure."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The target rejects one of the records permanently."""

    reason: str
    """Cause for users, without payload and credentials; stored with the dead letter."""

    delivered: int = 0
    """Number of records at the front of the batch that were accepted before the rejection."""

    exact: bool = False
    """True if the record after the delivered ones is the rejected one.

    Otherwise the deliverer finds it by halving the batch.
    """


Outcome: TypeAlias = Delivered | Retry | Reject
"""Result of `forebay.deliver.Target.send`."""
