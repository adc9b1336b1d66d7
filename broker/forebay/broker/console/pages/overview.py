"""Overview of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from forebay.broker.console.figures import BrokerFigures
from forebay.broker.console.pages.page import Page, PageSource, SinkLine
from forebay.broker.console.pages.sinks import ORDERS
from forebay.state.attention import LISTED_MAX, Need, needs

BUSIEST: Final = 10
"""Sinks on the overview."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Data of the overview."""

    at_us: int
    broker: BrokerFigures
    waiting: int
    into_per_s: float
    out_per_s: float
    oldest_age_s: float | None
    """Of all sinks."""

    stored_bytes: int
    """Bytes of the stored records of all sinks of the broker."""

    disk_share: float
    """Used part of the bytes that the device has for records, 0 to 1."""

    needs: tuple[Need, ...]
    more_needs: int
    busiest: tuple[SinkLine, ...]
    into: tuple[float, ...]
    out: tuple[float, ...]
    waiting_history: tuple[float, ...]


async def overview(source: PageSource, request: Request) -> Page:
    """Return the overview of the sinks that a principal may see."""
    snapshot, sinks = await source.sampler.current(), await source.visible(request)
    aged = await source.sampler.aged(sinks)
    busiest = await source.lines(sorted(sinks, key=ORDERS["waiting"])[:BUSIEST])
    found = needs(snapshot.broker, sinks)
    ages = [one.oldest_age_s for one in aged if one.oldest_age_s is not None]
    whole = len(sinks) == len(snapshot.sinks)
    data = Overview(
        at_us=snapshot.at_us,
        broker=snapshot.broker,
        waiting=sum(one.waiting for one in sinks),
        into_per_s=sum(one.rates.into for one in sinks),
        out_per_s=sum(one.rates.out for one in sinks),
        oldest_age_s=max(ages, default=None),
        stored_bytes=snapshot.stored_bytes,
        disk_share=snapshot.disk_share,
        needs=tuple(found[:LISTED_MAX]),
        more_needs=max(0, len(found) - LISTED_MAX),
        busiest=tuple(busiest),
        into=snapshot.total.quarter.into() if whole else (),
        out=snapshot.total.quarter.out() if whole else (),
        waiting_history=snapshot.total.quarter.waiting() if whole else (),
    )
    return Page("overview.html", "Overview", data, "forebay status", "/overview")
