"""A target for tests: takes everything except what its rule says, and writes down what came."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from forebay.deliver import Batch, BatchLimits, Delivered, Outcome, TargetContext

Rule = Callable[[Batch], Outcome]


def take_all(_: Batch) -> Outcome:
    """Take every batch."""
    return Delivered()


class RecordingTarget:
    """Keeps the offsets of every batch that came, and those taken, by partition."""

    def __init__(self, rule: Rule = take_all, *, limits: BatchLimits | None = None) -> None:
        self.rule = rule
        self._limits = limits
        self._lock = Lock()
        self.context: TargetContext | None = None
        self.closed = 0
        self.asked: list[tuple[int, int]] = []
        self.taken: dict[int, list[int]] = {}

    def open(self, context: TargetContext) -> BatchLimits | None:
        self.context = context
        return self._limits

    def send(self, batch: Batch) -> Outcome:
        with self._lock:
            self.asked.append((batch.first_offset, batch.last_offset))
        outcome = self.rule(batch)
        count = len(batch) if isinstance(outcome, Delivered) else outcome.delivered
        with self._lock:
            self.taken.setdefault(batch.partition, []).extend(r.offset for r in batch.records[:count])
        return outcome

    def close(self) -> None:
        self.closed += 1
