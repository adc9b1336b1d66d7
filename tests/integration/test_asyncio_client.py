"""Cancellation, concurrency and the end of the asyncio client: nothing is lost, and nothing is doubled."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientSettings,
    Closed,
    DeliveryTimeout,
    Record,
    RetryPolicy,
    Schema,
    SettleOutcome,
    aio,
    arrow,
)
from forebay.client.admin.schemas import SchemaCalls
from forebay.errors.reasons import Reason
from tests.support.refusals import failure

DEADLINE_S = 0.5
Run = Callable[[Callable[[aio.Client], Awaitable[None]]], None]


@pytest.fixture
def run(broker: BrokerServer) -> Run:
    """Runs a scenario; the sink `orders` exists."""
    with Client(broker.endpoint) as client:
        client.sinks.create("orders")

    async def within(scenario: Callable[[aio.Client], Awaitable[None]]) -> None:
        async with asyncio.timeout(60), aio.Client(broker.endpoint) as client:
            await scenario(client)

    return lambda scenario: asyncio.run(within(scenario))


async def cancelled(work: Coroutine[Any, Any, Any], after_s: float = 0.0) -> None:
    """Cancel work once it waits."""
    task = asyncio.create_task(work)
    await asyncio.sleep(after_s)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def values(client: aio.Client) -> list[bytes]:
    return [record.value async for record in client.replay("orders")]  # type: ignore[union-attr]  # no gaps


async def receipt_of(pending: aio.Pending[Any]) -> Any:
    return await pending


def test_a_cancelled_send_adds_nothing_and_later_records_are_sent(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        async with await client.publisher("orders", buffer_bytes_max=1024, linger_ms=60_000) as publisher:
            first = publisher.send_nowait(b"a" * 1000)
            await asyncio.gather(*(cancelled(publisher.send(b"b" * 1000)) for _ in range(3)))
            later = await publisher.send(b"c" * 1000)
            await publisher.flush()
            assert [(await one).first_offset for one in (first, later)] == [0, 1]
        assert await values(client) == [b"a" * 1000, b"c" * 1000]

    run(scenario)


def test_a_cancelled_wait_for_a_receipt_or_a_flush_does_not_recall_the_record(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        async with await client.publisher("orders", linger_ms=200) as publisher:
            pending = await publisher.send(b"a")
            await cancelled(receipt_of(pending))
            assert (await pending).first_offset == 0
            later = await publisher.send(b"b")
            await cancelled(publisher.flush())
            await publisher.flush()
            assert later.done()
        assert await values(client) == [b"a", b"b"]

    run(scenario)


def test_a_cancelled_close_continues_when_it_is_called_again(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        publisher = await client.publisher("orders", linger_ms=60_000)
        pending = await publisher.send(b"a")
        await cancelled(publisher.close())
        with failure(Reason.PUBLISHER_CLOSED):
            await publisher.send(b"b")
        await publisher.close()
        assert (await pending).first_offset == 0

    run(scenario)


def test_a_cancelled_take_or_wait_for_results_loses_no_delivery_and_no_answer(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        async with client.subscriber("orders") as subscriber:
            await cancelled(subscriber.take(), 0.05)
            await client.publish("orders", [Record(b"a")])
            delivery = await anext(subscriber)
            assert delivery.values() == [b"a"]
            answer = delivery.ack(wait=True)
            await cancelled(results_of(answer))
            assert [one.outcome.name for one in await answer] == ["OK"]

    async def results_of(answer: aio.Settled) -> Any:
        return await answer

    run(scenario)


def test_a_cancelled_replay_continues_after_the_last_record(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        await client.publish("orders", [Record(b"0"), Record(b"1")])
        async with client.replay("orders", partition=0, follow=True) as replay:
            found = [await anext(replay), await anext(replay)]
            for number in range(2, 5):
                await cancelled(replay.__anext__(), 0.05 if number % 2 else 0.0)
                await client.publish("orders", [Record(b"%d" % number)])
                found.append(await anext(replay))
        assert [one.value for one in found] == [b"%d" % number for number in range(5)]  # type: ignore[union-attr]

    run(scenario)


def test_many_tasks_share_a_publisher_and_each_gets_its_own_receipt(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        async with await client.publisher("orders", buffer_bytes_max=2048, linger_ms=0) as publisher:

            async def caller(number: int) -> list[int | None]:
                return [(await publisher.send_and_wait(b"%d:%d" % (number, turn))).first_offset for turn in range(20)]

            offsets = await asyncio.gather(*(caller(number) for number in range(64)))
        stored = await values(client)
        assert sorted(offset for one in offsets for offset in one if offset is not None) == list(range(64 * 20))
        for number, one in enumerate(offsets):
            assert [stored[offset or 0] for offset in one] == [b"%d:%d" % (number, turn) for turn in range(20)]

    run(scenario)


def test_a_closed_client_ends_its_calls_with_an_error_and_not_with_a_cancellation(run: Run) -> None:
    async def scenario(client: aio.Client) -> None:
        replay = client.replay_pages("orders", partition=0, follow=True)
        watch = client.sinks.watch("orders", interval_s=60)
        await anext(watch)
        waiting = [
            asyncio.create_task(work)
            for work in (client.pull("orders", wait_s=30), replay.__anext__(), watch.__anext__())
        ]
        taking = asyncio.create_task(client.subscriber("orders").take())
        await asyncio.sleep(0.2)
        await client.close()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(one, Closed) for one in ended] == [True] * 3
        assert await taking is None
        with failure(Reason.CLIENT_CLOSED):
            await client.sinks.list()

    run(scenario)


def test_a_publisher_that_cannot_be_opened_says_so_and_an_outage_fails_its_records() -> None:
    settings = ClientSettings(retry=RetryPolicy(tries_max=1))

    async def scenario() -> None:
        async with aio.Client("127.0.0.1:1", settings=settings) as client:
            with pytest.raises(BrokerUnavailable):
                await client.publisher("orders", delivery_timeout_s=0.3)
        with BrokerServer.in_memory() as server:
            client = aio.Client(server.endpoint)
            await client.sinks.create("orders")
            publisher = await client.publisher("orders", delivery_timeout_s=0.3)
        pending = await publisher.send(b"x")
        with pytest.raises(DeliveryTimeout):
            await pending
        with pytest.raises(DeliveryTimeout):
            await client.close()

    asyncio.run(scenario())


def test_a_publisher_and_a_subscriber_of_a_port_that_never_answers_can_be_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing

        async def scenario() -> None:
            async with asyncio.timeout(30), aio.Client(f"127.0.0.1:{silent.getsockname()[1]}") as client:
                with pytest.raises(BrokerUnavailable):
                    await client.publisher("orders", delivery_timeout_s=0.2)
                async with client.subscriber("orders") as subscriber:
                    assert await subscriber.take(0.1) is None
                await cancelled(client.publisher("orders"))

        asyncio.run(scenario())


def test_the_end_of_an_event_loop_ends_an_open_client(run: Run, broker: BrokerServer) -> None:
    left: list[asyncio.Task[Any]] = []

    async def leave() -> None:
        client = aio.Client(broker.endpoint)
        publisher = await client.publisher("orders")
        await (await publisher.send(b"x"))
        left.append(asyncio.create_task(client.subscriber("orders", subscription="default").take()))
        await asyncio.sleep(0.2)

    async def nothing(client: aio.Client) -> None: ...

    run(nothing)
    asyncio.run(leave())

    assert left[0].done()


def test_answers_are_confirmed_and_the_subscriber_closes_while_a_schema_is_awaited(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = SchemaCalls.fetch

    async def scenario(client: aio.Client) -> None:
        batches = [pa.record_batch({"id": [1]}), pa.record_batch({"id": [2], "name": ["b"]})]
        asked, answer = asyncio.Event(), asyncio.Event()

        async def slow(calls: SchemaCalls, sink: str, version: int, incarnation: str) -> Schema:
            if version == 2:
                asked.set()
                await answer.wait()
            return await fetch(calls, sink, version, incarnation)

        monkeypatch.setattr(SchemaCalls, "fetch", slow)
        await client.sinks.update("orders", ack_deadline_s=DEADLINE_S)
        async with (
            await client.publisher("orders") as publisher,
            client.subscriber("orders", subscription="default") as subscriber,
            client.subscriber("orders", subscription="default") as other,
        ):
            for number, batch in enumerate(batches):
                await client.schemas.register("orders", arrow.encode_schema(batch.schema), previous=number)
            await (await publisher.send_page(arrow.page(batches[0], 1), partition=0))
            first = await anext(subscriber)
            await (await publisher.send_page(arrow.page(batches[1], 2), partition=0))
            await asked.wait()

            async with asyncio.timeout(10):
                [confirmed] = await first.ack(wait=True)
            early = await subscriber.take(2.5 * DEADLINE_S)
            answer.set()
            second = await anext(subscriber)
            assert [(record.value, record.attempt) for record in second] == [(b'{"id":2,"name":"b"}', 0)]
            await subscriber.close()

            asked.clear()
            answer.clear()
            waiting = asyncio.create_task(other.take())
            await asked.wait()
            await other.close()

            assert (confirmed.outcome, early, await waiting) == (SettleOutcome.OK, None, None)

    run(scenario)
