"""Common limit of the deliveries to one target: how many sends are in progress at the same time."""

from __future__ import annotations

from threading import BoundedSemaphore

from forebay.deliver.batch import Batch, BatchLimits
from forebay.deliver.outcome import Outcome
from forebay.deliver.targets.target import Target, TargetContext


class Gate:
    """Sends in progress of several deliveries, first come, first served. Thread-safe."""

    def __init__(self, concurrency: int) -> None:
        self.entries = BoundedSemaphore(concurrency)


class GatedTarget:
    """Target whose sends pass a gate that it shares with other targets."""

    def __init__(self, target: Target, gate: Gate) -> None:
        self._target, self._gate = target, gate

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Open the target."""
        return self._target.open(context)

    def send(self, batch: Batch) -> Outcome:
        """Send when the gate has room; the wait counts towards the ack deadline, as the send does."""
        with self._gate.entries:
            return self._target.send(batch)

    def close(self) -> None:
        """Close the target."""
        self._target.close()
