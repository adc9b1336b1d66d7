"""Grouping of answers in messages. The integration tests cover the stream as a whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.rpc.buffer.publish_stream import PublishStream, _Unanswered
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


async def test_a_durable_append_is_answered_although_the_store_has_failed_for_the_next_one() -> None:
    loop = asyncio.get_running_loop()
    stored: asyncio.Future[PublishResult] = loop.create_future()
    stored.set_result(PublishResult(0, 1, duplicate=False))
    lost: asyncio.Future[PublishResult] = loop.create_future()
    lost.set_exception(StoreFenced("on purpose"))
    stream = PublishStream(cast("Any", None), cast("Any", None), cast("Any", None))
    stream._answers.extend([_Unanswered(0, 5, 10, stored), _Unanswered(0, 6, 10, lost)])

    await stream._first()
    answered = [(answer.sequence, answer.HasField("receipt")) for answer in stream._ready(256)]

    assert answered == [(5, True)]
    with pytest.raises(StoreFenced):
        await stream._first()


class Unread(PublishStream):
    """A stream whose peer has sent everything and reads none of the answers."""

    async def _read(self, session: object) -> None:
        pass

    async def _answer(self) -> None:
        await asyncio.Event().wait()


async def test_a_stream_that_is_half_closed_and_not_read_ends_when_its_memory_is_needed() -> None:
    broker = SimpleNamespace(ended=asyncio.Event().wait)
    session = SimpleNamespace(on_fenced=asyncio.Event(), fenced=None)
    stream = Unread(cast("Any", broker), cast("Any", None), cast("Any", None))
    stream._memory = Share()
    serving = asyncio.ensure_future(stream._until_over(cast("Any", session)))
    for _ in range(5):
        await asyncio.sleep(0)
    was_done = serving.done()
    stream._memory.shed.set()

    with refusal(Reason.READER_TOO_SLOW):
        await serving
    assert not was_done
