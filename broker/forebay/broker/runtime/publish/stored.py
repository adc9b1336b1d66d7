"""What became of a page that was published, and the futures that say so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from forebay.broker.core.partition.pages import Durability


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a page."""

    first: int | None
    """First offset, or None for a duplicate whose offsets are forgotten."""

    count: int
    duplicate: bool
    durability: Durability = Durability.DISK
    staged: bool = False
    """It gets its offsets when its epoch is committed."""


def done_with(loop: asyncio.AbstractEventLoop, stored: Stored) -> asyncio.Future[Stored]:
    """A future that is done."""
    future: asyncio.Future[Stored] = loop.create_future()
    future.set_result(stored)
    return future


def pass_on(result: asyncio.Future[Stored], failure: BaseException | None, stored: Stored) -> None:
    """End a future with what became of the page."""
    if result.done():
        return
    if failure is not None:
        result.set_exception(failure)
        result.exception()  # the stream may be gone: nobody has to ask
    else:
        result.set_result(stored)
