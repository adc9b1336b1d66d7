"""Interface of targets: an object with three methods.

Sending is at least once. A target makes it exactly once by storing the idempotency keys of a batch, per batch or per
record.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.outcome import Outcome


@dataclass(frozen=True, slots=True)
class TargetContext:
    """Facts that are passed to a target at opening."""

    sink: str
    """Name of the delivered sink."""

    subscription: str
    """Name of the delivered subscription."""

    concurrency: int
    """Maximum number of threads that call `Target.send` concurrently; 1 for sequential calls."""


@runtime_checkable
class Target(Protocol):
    """Sends batches to another system."""

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Prepare before the first `send`; return limits for batches, or ``None``. Called once.

        ``None`` is for the defaults. Tighter limits of the deliverer's settings apply.

        An unavailable system is not a failure here: `send` reports it. An exception ends the deliverer.
        """

    def send(self, batch: Batch) -> Outcome:
        """Send a batch and return its outcome. After `Delivered` the batch is not sent again.

        Called from several threads, for one partition from one at a time, in order. It must return within the sink's
        ack deadline; otherwise the records are redelivered. An exception counts as `Retry`, except `TargetClosed`.
        """

    def close(self) -> None:
        """Release all resources after the last `send`. Called once."""


@runtime_checkable
class TurnTaking(Protocol):
    """Addition to a target whose sends wait for their turn, because others send to the same system."""

    def send_turn(self) -> AbstractContextManager[None]:
        """Wait for the turn of one `Target.send`, which ends with the context.

        The deliverer extends the ack deadline during the wait, and then sends only what is still to be sent. Raises
        `TargetClosed` when the target was closed during the wait.
        """


@runtime_checkable
class Checkable(Protocol):
    """Addition to a target that can check its system before a delivery."""

    def check(self) -> str:
        """Return the problem with which `Target.send` would fail, without secrets; empty for none.

        Called once after `Target.open`, without a `Target.send`, by ``forebay run FILE --check --open``. It writes
        nothing, and returns within the time limit of the target. An exception is a problem too.
        """
