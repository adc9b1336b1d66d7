from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.broker.core.resources.stream_budget import STALLED_S
from forebay.broker.rpc.transport.answer_memory import AnswerMemory, becomes
from forebay.broker.runtime.resources.stream_memory import COPIES, StreamMemory

pytestmark = pytest.mark.anyio


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Call:
    """Memory account of a call."""

    def __init__(self) -> None:
        self.over: list[Callable[[object], None]] = []

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1234"

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        self.over.append(callback)


async def test_an_answer_counts_until_its_call_is_over() -> None:
    memory, call = StreamMemory(1_000, Clock()), Call()
    share = AnswerMemory(memory).of(call)
    await share.room(100)

    becomes(share, 30)
    smaller = memory.budget.used
    becomes(share, 300)
    larger = memory.budget.used
    for callback in call.over:
        callback(call)

    assert (smaller, larger, memory.budget.used) == (30 * COPIES, 300 * COPIES, 0)


async def test_a_caller_that_takes_nothing_is_hung_up_on_when_others_wait() -> None:
    closed: list[tuple[str, int]] = []
    clock = Clock()
    memory = StreamMemory(1_000, clock)
    becomes(AnswerMemory(memory, closed.append).of(Call()), 400)
    assert not memory.share().reserve(200)

    memory.check()
    early = list(closed)
    clock.now += STALLED_S
    memory.check()

    assert (early, closed) == ([], [("192.0.2.1", 1234)])
