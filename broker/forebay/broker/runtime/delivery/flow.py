"""State of the flow through a subscription, from counters in memory."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.core.delivery.redelivery import State
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.state import flow
from forebay.state.flow import Flow


@dataclass(slots=True)
class _LaneFacts:
    """Statistics of one lane that the state of its subscription depends on."""

    pending: int
    parked_records: int
    live_stopped: bool
    state: State


def flow_of(subscription: Subscription) -> Flow:
    """Return the state of a subscription."""
    lanes = [
        _LaneFacts(
            lane.cursor.pending(subscription.log(partition).tail.next_offset),
            lane.retry.queue.records(lane.view) if lane.retry.queue else 0,
            lane.retry.live_stopped,
            lane.resend.state,
        )
        for partition, lane in enumerate(subscription.lanes)
    ]
    rate = subscription.accounts.settling.per_s(subscription.now())
    return flow.of_subscription(lanes, consumers=len(subscription.owners.consumers), settled_per_s=rate)
