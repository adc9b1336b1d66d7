"""Lines of `forebay lag`: per sink, per subscription or per partition.

The line of a sink is that of the subscription that needs attention first, so that its numbers belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from forebay.cli.output import Column, Figure, Styled, bytes_text, seconds_text
from forebay.cli.times import clock_text
from forebay.state.flow import ORDER, Flow, of_sink, of_subscription, seconds_to_empty

if TYPE_CHECKING:
    from forebay.client import SinkStats, SubscriptionStats
    from forebay.client.values.sinks import SubscriptionPartitionStats

STYLES: Final = {
    Flow.IDLE: "dim",
    Flow.FLOWING: "green",
    Flow.NO_CONSUMER: "yellow",
    Flow.BACKING_OFF: "yellow",
    Flow.PAUSED: "magenta",
    Flow.FULL: "bold red",
}


@dataclass(frozen=True, slots=True)
class Line:
    """State and lag of a subscription, or of one partition of it."""

    stats: SinkStats
    subscription: SubscriptionStats
    lanes: Sequence[SubscriptionPartitionStats]
    """Partitions that the line is about."""

    flow: Flow

    @property
    def records(self) -> int:
        """Number of unsettled records."""
        return sum(lane.pending for lane in self.lanes)

    @property
    def bytes(self) -> int:
        """Lag in bytes of stored pages."""
        return sum(lane.pending_bytes for lane in self.lanes)

    @property
    def age_s(self) -> float:
        """Age of the oldest unsettled record."""
        return max((lane.pending_age_s for lane in self.lanes), default=0.0)

    @property
    def in_flight(self) -> int:
        """Number of records in flight."""
        return sum(lane.in_flight for lane in self.lanes)

    @property
    def empty_s(self) -> float | None:
        """Time until no record waits, at the recent rates; None if it never comes."""
        rates = {"in_per_s": self.stats.appended_per_s, "out_per_s": self.subscription.settled_per_s}
        return seconds_to_empty(self.records, **rates)

    @property
    def retry_at(self) -> datetime | None:
        """Time of the next attempt, while backing off."""
        return min((lane.retry_at for lane in self.lanes if lane.retry_at is not None), default=None)

    @property
    def reason(self) -> str:
        """Reasons why nothing is sent."""
        return "; ".join(dict.fromkeys(lane.reason for lane in self.lanes if lane.reason))


def sink_line(stats: SinkStats) -> Line:
    """Return the line of a sink."""
    lines = subscription_lines(stats)
    return max(lines, key=lambda line: (ORDER[subscription_flow(line.subscription)], line.records))


def subscription_lines(stats: SinkStats) -> list[Line]:
    """Return one line per subscription; a full sink is so in each."""
    return [
        Line(stats, each, each.partitions, of_sink([subscription_flow(each)], full=stats.full))
        for each in stats.subscriptions
    ]


def subscription_flow(subscription: SubscriptionStats) -> Flow:
    """Return the state of a subscription."""
    return of_subscription(
        subscription.partitions, consumers=subscription.consumers, settled_per_s=subscription.settled_per_s
    )


def partition_lines(stats: SinkStats) -> list[Line]:
    """Return one line per subscription and partition."""
    return [
        Line(stats, each, [lane], partition_flow(each, lane))
        for each in stats.subscriptions
        for lane in each.partitions
    ]


def partition_flow(subscription: SubscriptionStats, lane: SubscriptionPartitionStats) -> Flow:
    """Return the state of one partition; the rate of the subscription counts where records wait."""
    settled_per_s = subscription.settled_per_s if lane.pending else 0.0
    return of_subscription([lane], consumers=subscription.consumers, settled_per_s=settled_per_s)


def _name(line: Line) -> str:
    """Return the name of the sink, with the subscription where there are several."""
    several = len(line.stats.subscriptions) > 1
    return f"{line.stats.name}/{line.subscription.name}" if several else line.stats.name


def _empty_text(line: Line) -> Figure | None:
    if not line.records:
        return None
    return Figure("never") if line.empty_s is None else seconds_text(line.empty_s)


def _next_try(line: Line) -> Figure | None:
    return None if line.retry_at is None else Figure(clock_text(line.retry_at))


_LINE: Final[dict[str, Column[Line]]] = {"sink": _name, "state": lambda line: Styled(line.flow, STYLES[line.flow])}
_WAITING: Final[dict[str, Column[Line]]] = {
    "waiting": "records",
    "oldest": lambda line: seconds_text(line.age_s) if line.records else None,
}
_RATES: Final[dict[str, Column[Line]]] = {"out/s": "subscription.settled_per_s", "empty in": _empty_text}
_SIZES: Final[dict[str, Column[Line]]] = {"size": lambda line: bytes_text(line.bytes), "in flight": "in_flight"}
_CAUSE: Final[dict[str, Column[Line]]] = {"next try": _next_try, "reason": "reason"}
_PARTITION: Final[dict[str, Column[Line]]] = {"partition": lambda line: line.lanes[0].partition}

SINKS: Final[dict[str, Column[Line]]] = {**_LINE, **_WAITING, **_RATES}
"""Columns of a sink, for 80 characters."""

SUBSCRIPTIONS: Final[dict[str, Column[Line]]] = {
    **_LINE,
    **_WAITING,
    **_SIZES,
    "in/s": "stats.appended_per_s",
    **_RATES,
    "consumers": "subscription.consumers",
    "used": lambda line: Figure(f"{line.stats.limit_used:.0%}"),
    **_CAUSE,
}
"""All columns of a subscription."""

PARTITIONS: Final[dict[str, Column[Line]]] = {**_LINE, **_PARTITION, **_WAITING, "in flight": "in_flight"}
"""Columns of a partition, for 80 characters."""

ALL_PARTITIONS: Final[dict[str, Column[Line]]] = {**_LINE, **_PARTITION, **_WAITING, **_SIZES, **_CAUSE}
"""All columns of a partition."""

OPTIONAL: Final = ("in flight", "used", "consumers", "size", "in/s", "next try", "reason")
"""Columns that a narrow terminal hides, the first ones first."""
