"""Pages by path, and how open ones are updated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from forebay.broker.console.pages.connections import connections
from forebay.broker.console.pages.damage import damage
from forebay.broker.console.pages.deliveries import deliveries
from forebay.broker.console.pages.letters import letters
from forebay.broker.console.pages.overview import overview
from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.console.pages.producers import producers
from forebay.broker.console.pages.records import explain, records
from forebay.broker.console.pages.schemas import schemas
from forebay.broker.console.pages.sink import sink
from forebay.broker.console.pages.sinks import sinks
from forebay.broker.console.pages.tail import follow_tail, tail

QUIET_S: Final = 15.0
"""Time after which a follower yields None, so that a connection whose browser is gone ends."""

Build = Callable[[PageSource, Request], Awaitable[Page]]

Follow = Callable[[PageSource, Request], AsyncGenerator[Page | None, None]]
"""Yields a page whenever it has changed, and None from time to time when it has not."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One page of the console."""

    build: Build
    follow: Follow | None = None
    """None for a page that is not updated."""


def _sampled(build: Build) -> PageEntry:
    """Return a page that is updated after each sample."""

    async def follow(source: PageSource, request: Request) -> AsyncGenerator[Page | None, None]:
        while not source.ended.is_set():
            changed = source.sampler.changed.next()
            try:
                async with asyncio.timeout(QUIET_S):
                    await changed.wait()
            except TimeoutError:
                yield None
                continue
            if not source.ended.is_set():
                request.state.principal = source.admit(request)
                yield await build(source, request)

    return PageEntry(build, follow)


PAGES: Final[dict[str, PageEntry]] = {
    "/overview": _sampled(overview),
    "/sinks": _sampled(sinks),
    "/sinks/{sink}": _sampled(sink),
    "/deliveries": _sampled(deliveries),
    "/producers": _sampled(producers),
    "/connections": _sampled(connections),
    "/damage": PageEntry(damage),
    "/sinks/{sink}/records": PageEntry(records),
    "/sinks/{sink}/explain": PageEntry(explain),
    "/sinks/{sink}/tail": PageEntry(tail, follow_tail),
    "/sinks/{sink}/schemas": PageEntry(schemas),
    "/sinks/{sink}/dead-letters": PageEntry(letters),
}
"""Pages by path; the overview is also ``/``.

Their JSON is at the path with ``.json``, their events are under ``/events``.
"""
