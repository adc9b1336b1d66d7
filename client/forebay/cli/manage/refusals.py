"""Refusals of the broker that follow from the stats of a sink: before a question, and in a dry run.

Reasons, texts and facts are those of the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forebay.client import Client, ForebayError, SinkStats
    from forebay.client.values.sinks import PartitionStats, SubscriptionStats
    from forebay.errors.reasons import Reason

DEFAULT: Final = "default"


def refusal(reason: Reason, problem: str = "", **facts: object) -> ForebayError:
    """Return the error of the client for a reason, with the text of the table of errors."""
    from forebay.client.transport.status import class_of

    named = {name: str(value) for name, value in facts.items()}
    return class_of(reason)(reason.text.format(problem, **facts), reason=reason, facts=named)


def subscription_in(stats: SinkStats, name: str) -> SubscriptionStats:
    """Return the stats of a subscription. Raises ``SubscriptionNotFound``."""
    from forebay.errors.reasons import Reason

    for one in stats.subscriptions:
        if one.name == (name or DEFAULT):
            return one
    raise refusal(Reason.SUBSCRIPTION_NOT_FOUND, sink=stats.name, subscription=name)


def partition_in(stats: SinkStats, partition: int) -> PartitionStats:
    """Return the stats of a partition. Raises ``INVALID_PARTITION``."""
    from forebay.errors.reasons import Reason

    for one in stats.partitions:
        if one.partition == partition:
            return one
    partitions = len(stats.partitions)
    raise refusal(
        Reason.INVALID_PARTITION, str(partitions - 1), field="partition", partition=partition, partitions=partitions
    )


def check_end(part: PartitionStats, offset: int) -> None:
    """Raise ``OFFSET_AHEAD`` if an offset is beyond the end of a partition."""
    from forebay.errors.reasons import Reason

    if offset > part.next_offset:
        raise refusal(Reason.OFFSET_AHEAD, requested=offset, earliest=part.earliest_offset, next=part.next_offset)


def check_begin(client: Client, sink: str, part: PartitionStats, offset: int) -> None:
    """Raise ``OffsetTrimmed`` if a record from ``offset`` on is neither stored nor in a gap."""
    from forebay.errors.reasons import Reason

    lowest = part.earliest_offset
    if offset >= lowest:
        return
    gaps = [gap for gap in client.sinks.gaps(sink, partition=part.partition) if not gap.subscription]
    for gap in reversed(gaps):
        if gap.last_offset + 1 >= lowest:
            lowest = min(lowest, gap.first_offset)
    if offset < lowest:
        raise refusal(Reason.OFFSET_TRIMMED, requested=offset, earliest=part.earliest_offset, next=part.next_offset)
