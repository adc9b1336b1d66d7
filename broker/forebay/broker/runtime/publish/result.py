"""Result of a published page, and the futures that carry it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from forebay.broker.core.partition.pages import Durability


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Result of a published page."""

    first: int | None
    """First offset, or None for a duplicate whose offsets are no longer known."""

    count: int
    duplicate: bool
    durability: Durability = Durability.DISK
    staged: bool = False
    """True if it gets its offsets when its epoch is committed."""


def done_with(loop: asyncio.AbstractEventLoop, stored: PublishResult) -> asyncio.Future[PublishResult]:
    """Return a future that is done."""
    future: asyncio.Future[PublishResult] = loop.create_future()
    future.set_result(stored)
    return future


def pass_on(result: asyncio.Future[PublishResult], failure: BaseException | None, stored: PublishResult) -> None:
    """Complete a future with the result of the page."""
    if result.done():
        return
    if failure is not None:
        result.set_exception(failure)
        result.exception()  # retrieved: the stream may be gone
    else:
        result.set_result(stored)
