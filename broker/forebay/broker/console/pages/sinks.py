"""List of the sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource, SinkLine, number, query

ON_A_PAGE: Final = 100
"""Sinks on a page."""

ORDERS: Final = {
    "waiting": lambda one: (-one.waiting, one.name),
    "in": lambda one: (-one.rates.into, one.name),
    "out": lambda one: (-one.rates.out, one.name),
    "share": lambda one: (-one.share, one.name),
    "name": lambda one: one.name,
}
"""Orders of the list, by the word in the address."""


@dataclass(frozen=True, slots=True)
class SinkList:
    """Data of the list of sinks."""

    at_us: int
    order: str
    first: int
    total: int
    sinks: tuple[SinkLine, ...]
    previous: str
    """Query of the page before; empty on the first one."""

    next: str


async def sinks(source: PageSource, request: Request) -> Page:
    """Return a part of the list of sinks, in the requested order."""
    order = request.query_params.get("order", "waiting")
    if order not in ORDERS:
        raise HTTPException(400, f"order must be one of {', '.join(ORDERS)}.")
    first = number(request, "first", 0)
    ordered = sorted(await source.visible(request), key=ORDERS[order])
    end = first + ON_A_PAGE
    data = SinkList(
        at_us=(await source.sampler.current()).at_us,
        order=order,
        first=first,
        total=len(ordered),
        sinks=tuple(await source.lines(ordered[first:end])),
        previous=query(order=order, first=max(0, first - ON_A_PAGE)) if first else "",
        next=query(order=order, first=end) if end < len(ordered) else "",
    )
    return Page("sinks.html", "Sinks", data, "forebay lag", "/sinks", query(order=order, first=first))
