"""The first message of a stream comes in time, or the stream is refused."""

from __future__ import annotations

import asyncio

import pytest

from forebay.broker.rpc.buffer.first_message import first_message
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


class Stream:
    """A stream whose peer has said something, or nothing."""

    def __init__(self, message: str | None) -> None:
        self._message = message

    async def read(self) -> str:
        if self._message is None:
            await asyncio.Event().wait()
        return self._message or ""


async def test_the_first_message_is_returned() -> None:
    assert await first_message(Stream("open")) == "open"


async def test_a_stream_that_says_nothing_is_refused() -> None:
    with refusal(Reason.INVALID_OPEN, match="did not arrive within"):
        await first_message(Stream(None), within_s=0.01)
