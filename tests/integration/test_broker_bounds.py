"""Bounds that all sinks of a broker share, over the wire: the bytes they hold, and the memory of the process."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from forebay.broker import composition
from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.resources.memory import SHARE, Reading
from forebay.client import Client, ClientSettings, Record, RetryPolicy
from forebay.client.publish.pages import encode_columns
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.calls.streams import PublishCall
from tests.support.refusals import failure

ONCE = ClientSettings(call_timeout_s=10.0, retry=RetryPolicy(tries_max=1))
MIB = 1 << 20
SIZE = len(encode_columns([b"x" * 1_000]).body)


def test_a_full_broker_refuses_every_sink_and_takes_again_what_waits_once_one_is_delivered() -> None:
    with BrokerServer.in_memory(max_broker_bytes=2 * SIZE) as server, Client(server.endpoint, settings=ONCE) as client:
        client.sinks.create("first")
        client.sinks.create("second")
        for _ in range(2):
            client.publish("first", [Record(b"x" * 1_000)])
        with failure(Reason.BROKER_FULL) as refused:
            client.publish("second", [Record(b"x" * 1_000)])
        with client.publisher("second", linger_ms=0) as publisher:
            waiting = publisher.send(b"x" * 1_000)
            client.ack("first", client.pull("first"))
            receipt = waiting.result(20)

    assert refused.value.facts == {"used": str(2 * SIZE), "bound": str(2 * SIZE)}
    assert (refused.value.reason, refused.value.retry_after_s) == ("BROKER_FULL", 1.0)
    assert receipt.first_offset == 0


def test_over_the_watermark_of_memory_fewer_bytes_may_wait_and_it_continues_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(composition, "measure", lambda: [Reading("process", 99, 100)])
    store = HeldStore()
    server = BrokerServer.in_memory(store, waiting_bytes_max=SHARE * MIB)
    with server, Client(server.endpoint, settings=ONCE) as client, ExitStack() as streams:
        client.sinks.create("orders")
        client.sinks.create("bare", memory_overload_protection=False)
        first, second, third = (
            streams.enter_context(PublishCall(server.endpoint, sink, writer))
            for sink, writer in (("orders", "a"), ("orders", "b"), ("bare", "c"))
        )
        look(server)
        store.hold()
        first.send(0, [b"x" * (MIB - 1_000)])
        store.wait_reached()
        with failure(Reason.MEMORY_OVERLOADED) as refused:
            second.publish(0, [b"x" * 1_000])
        third.send(0, [b"x" * 1_000])
        store.let_go()
        answers = [first.answer().first_offset, third.answer().first_offset]
        answers.append(second.publish(0, [b"x" * 1_000]).first_offset)

    assert refused.value.facts["bound"] == str(MIB)
    assert refused.value.retry_after_s == 0.25
    assert answers == [0, 0, 1]


def look(server: BrokerServer) -> None:
    """Let a broker measure now."""

    async def measured() -> None:
        assert server.serving is not None
        server.serving.broker.memory.check()

    assert server.loop is not None
    asyncio.run_coroutine_threadsafe(measured(), server.loop).result(10)
