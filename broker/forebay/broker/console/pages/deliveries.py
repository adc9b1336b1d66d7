"""Deliveries: each subscription with its consumers, its rate and its last failure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request

from forebay.broker.console.health import is_used
from forebay.broker.console.history import Span
from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.names import RESERVED_SUFFIX
from forebay.broker.runtime.delivery.flow import flow_of
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.resources.streams import StreamKind

DELIVERIES: Final = 200
"""Subscriptions on the page: those that need attention first, then by waiting records."""


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """One subscription, over all partitions."""

    sink: str
    subscription: str
    state: str
    needs_attention: bool
    consumers: int
    clients: tuple[str, ...]
    """Names that the connected consumers gave, or their addresses."""

    programs: tuple[str, ...]
    """Programs that the consumers named, with version and target; each once."""

    latency: tuple[int, ...]
    """Pages of the last five to ten minutes by the time from sending to the last answer; see ``BOUNDS_S``."""

    waiting: int
    in_flight: int
    settled_per_s: float
    retry_in_s: float | None
    reason: str
    """Last failure."""

    day: tuple[Span, ...] = ()
    """State, waiting and settled records of the last day, since the start of the broker at most."""


@dataclass(frozen=True, slots=True)
class DeliveryList:
    """Data of the page."""

    total: int
    deliveries: tuple[DeliveryLine, ...]


async def deliveries(source: PageSource, request: Request) -> Page:
    """Return the subscriptions that a principal may see, without those that were never used."""
    broker, slices = source.broker, Slices()
    clients: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    programs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for stream in broker.streams:
        if stream.kind is StreamKind.DELIVER:
            place = stream.sink, stream.subscription
            clients[place].append(stream.client_id or stream.peer)
            programs[place].add(stream.program)
    found: list[DeliveryLine] = []
    now = broker.clock.monotonic()
    for figures in await source.visible(request):
        await slices.turn()
        buffer = broker.sinks.get(figures.name)
        for subscription in buffer.subscriptions.values() if buffer is not None else ():
            line = _line(figures.name, subscription, now)
            if is_used(subscription, line.waiting):
                place = line.sink, line.subscription
                named = tuple(sorted(filter(None, programs.get(place, ()))))
                found.append(replace(line, clients=tuple(clients.get(place, ())), programs=named))
    found.sort(key=lambda one: (not one.needs_attention, -one.waiting, one.sink, one.subscription))
    health = (await source.sampler.current()).health
    listed = tuple(replace(one, day=health.day(one.sink, one.subscription)) for one in found[:DELIVERIES])
    data = DeliveryList(len(found), listed)
    return Page(
        "deliveries.html", "Deliveries", data, "forebay lag -w", "/deliveries", further=("forebay connections",)
    )


def _line(sink: str, subscription: Subscription, now: float) -> DeliveryLine:
    lanes = subscription.lanes
    flow = flow_of(subscription)
    held = [lane.resend for lane in lanes if lane.resend.reason]
    retries = [lane.resend.until - now for lane in lanes if lane.resend.state is State.BACKING_OFF]
    return DeliveryLine(
        sink=sink,
        subscription=subscription.name,
        state=flow.value,
        needs_attention=flow.needs_attention and not sink.endswith(RESERVED_SUFFIX),
        consumers=len(subscription.owners.consumers),
        clients=(),
        programs=(),
        latency=subscription.accounts.latency.counts(now),
        waiting=sum(
            lane.cursor.pending(subscription.log(partition).tail.next_offset) for partition, lane in enumerate(lanes)
        ),
        in_flight=sum(lane.records_in_flight for lane in lanes),
        settled_per_s=subscription.accounts.settling.per_s(subscription.now()),
        retry_in_s=max(0.0, min(retries)) if retries else None,
        reason=held[0].reason if held else "",
    )
