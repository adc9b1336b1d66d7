"""State of the flow through a subscription or a sink, as one word.

It is derived from the statistics that the broker gives, here only, so that all tools say the same. The facts are read
by attribute: the broker's own statistics and the client's values have the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final, Protocol


class Flow(StrEnum):
    """State of the flow; the later members need attention before the earlier ones."""

    IDLE = "idle"
    """No record waits, and none was settled lately."""

    FLOWING = "flowing"
    """Records are delivered, or settled by a reader that keeps its own position."""

    NO_CONSUMER = "no consumer"
    """Records wait, and no consumer is connected."""

    BACKING_OFF = "backing off"
    """The last delivery failed; the next attempt is scheduled or in flight."""

    PAUSED = "paused"
    """Deliveries are paused, by a request or because of what the target rejects."""

    FULL = "full"
    """A limit of the sink is reached: appends are rejected, or the oldest records are dropped."""

    @property
    def needs_attention(self) -> bool:
        """True unless records flow or none waits."""
        return self not in {Flow.IDLE, Flow.FLOWING}


class Lane(Protocol):
    """Statistics of a subscription on one partition that the state depends on."""

    @property
    def pending(self) -> int:
        """Number of unsettled records."""

    @property
    def parked_records(self) -> int:
        """Number of records in the retry queue (RELAXED order)."""

    @property
    def live_stopped(self) -> bool:
        """True if new records wait for a successful probe (RELAXED order)."""

    @property
    def state(self) -> Enum:
        """State of redelivery; its name is that of the wire without the prefix."""


_FAILING: Final = frozenset({"BACKING_OFF", "PROBING"})


def of_subscription(lanes: Iterable[Lane], *, consumers: int, settled_per_s: float = 0.0) -> Flow:
    """Return the state of a subscription; of one partition of it with only its lane.

    ``consumers`` is the number of connected consumers of the subscription, ``settled_per_s`` its recent rate.
    """
    found = list(lanes)
    if any(lane.state.name == "PAUSED" for lane in found):
        return Flow.PAUSED
    if any(_is_held_back(lane) for lane in found):
        return Flow.BACKING_OFF
    if settled_per_s > 0:
        return Flow.FLOWING
    if any(lane.pending for lane in found):
        return Flow.FLOWING if consumers else Flow.NO_CONSUMER
    return Flow.IDLE


def of_sink(subscriptions: Iterable[Flow], *, full: bool = False) -> Flow:
    """Return the state of a sink: full, or that of the subscription that needs attention first."""
    return Flow.FULL if full else max(subscriptions, key=ORDER.__getitem__, default=Flow.IDLE)


def seconds_to_empty(pending: int, *, in_per_s: float, out_per_s: float) -> float | None:
    """Return the time until no record waits at these rates; None if it never comes."""
    if not pending:
        return 0.0
    net = out_per_s - in_per_s
    return pending / net if net > 0 else None


def seconds_to_full(records: int, share: float, *, in_per_s: float, out_per_s: float) -> float | None:
    """Return the time until a limit is reached at these rates; None if it is not approached.

    ``share`` is the used part of the limit, which ``records`` stored records use.
    """
    growth = in_per_s - out_per_s
    if growth <= 0 or not records or not 0 < share < 1:
        return None
    return records * (1 - share) / share / growth


ORDER: Final = {flow: number for number, flow in enumerate(Flow)}
"""Urgency of the states: the highest number needs attention first."""


def _is_held_back(lane: Lane) -> bool:
    """Return True if a failure holds back all that waits, not only the retry queue beside new records."""
    if not lane.pending or lane.state.name not in _FAILING:
        return False
    return lane.live_stopped or not 0 < lane.parked_records < lane.pending
