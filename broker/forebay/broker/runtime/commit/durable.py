"""Future of a batch, shared by all waiters.

A waiter that is cancelled (its call was cancelled, its connection broke) stops waiting and has no other effect: the
future stays valid for the others, and for the statistics, which show nothing before it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator


class Durable(asyncio.Future[None]):
    """Done when a batch is durable, or failed with the store's error. Used on the loop only."""

    def __await__(self) -> Generator[object, None, None]:
        return super().__await__() if self.done() else asyncio.shield(self).__await__()
