"""First message of a stream, due within a time limit: a silent stream costs memory like any other."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

OPEN_S: Final = 30.0
"""Time that a stream has for its first message."""


async def first_message(context: Any, *, within_s: float = OPEN_S) -> Any:
    """Return the first message of a stream; raises ``INVALID_OPEN`` if none arrives in time."""
    waiting = asyncio.timeout(within_s)
    try:
        async with waiting:
            return await context.read()
    except TimeoutError:
        if not waiting.expired():
            raise
        raise BrokerError(
            Reason.INVALID_OPEN, f"the first message, `open`, did not arrive within {within_s:g} s", field="open"
        ) from None
