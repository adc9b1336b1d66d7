"""What became of a batch at its target.

A target answers with one of three values and decides nothing else: whether a record is acked, sent again
or given up is the deliverer's business. An answer always speaks of the batch from its first record on,
because order is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The target has taken every record of the batch, for good."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The target could not take the records now. They stay in the buffer and are delivered again."""

    reason: str
    """What went wrong, for people: no payload and no credential. It is shown in the sink's statistics."""

    delay_s: float | None = None
    """Not before this many seconds. ``None`` leaves it to the sink's back-off."""

    delivered: int = 0
    """How many records at the front of the batch were taken before it went wrong."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The target will never take one of the records."""

    reason: str
    """What the target said, for people: no payload and no credential. It goes with the dead letter."""

    delivered: int = 0
    """How many records at the front of the batch were taken before it."""

    exact: bool = False
    """Whether the record right after those delivered is the one at fault. If not, the deliverer finds it
    by halving.
    """


Outcome: TypeAlias = Delivered | Retry | Reject
"""What `forebay.deliver.Target.send` returns."""
