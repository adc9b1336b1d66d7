"""What a target is: any object with these three methods.

Sending is at least once. A target makes it exactly once on its side by remembering the idempotency keys
that a batch offers, per batch or per record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from forebay.deliver.batch import Batch, BatchLimits
    from forebay.deliver.outcome import Outcome


@dataclass(frozen=True, slots=True)
class TargetContext:
    """What a target is told when it is opened."""

    sink: str
    """Name of the sink that is delivered."""

    subscription: str
    """Name of the subscription it is delivered for."""

    concurrency: int
    """Most threads that call `Target.send` at the same time; 1 if the target must not be called side by
    side.
    """


@runtime_checkable
class Target(Protocol):
    """Takes batches to another system."""

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Get ready, once, before the first `send`, and return tighter limits for batches or ``None``.

        A system that is away is no reason to fail: `send` will say so. What raises here ends the deliverer.
        """

    def send(self, batch: Batch) -> Outcome:
        """Take a batch and return when its fate is known. `Delivered` means: it will not be sent again.

        Called from several threads, for a partition from one at a time, in order. It is to return within
        the sink's ack deadline, or the records come again. An exception counts as `Retry`, except
        `TargetGone`.
        """

    def close(self) -> None:
        """Let go of everything, once, after the last `send`."""
