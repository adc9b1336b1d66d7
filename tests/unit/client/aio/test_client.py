"""One asyncio client does what a thread client does, in its own event loop only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from forebay.client import Client, Closed, Record, aio
from forebay.client.aio.publisher import Publisher
from forebay.client.testing import broker
from forebay.errors.reasons import Reason


@pytest.fixture
def endpoint() -> Iterator[str]:
    with broker() as running:
        with Client(running.endpoint) as client:
            client.sinks.create("orders")
        yield running.endpoint


def test_a_record_is_published_delivered_and_acked(endpoint: str) -> None:
    async def run() -> tuple[int | None, bytes, int]:
        async with aio.Client(endpoint) as client:
            async with await client.publisher("orders") as publisher:
                receipt = await (await publisher.send(b"value"))
            async with client.subscriber("orders") as subscriber:
                delivery = await anext(subscriber)
                (value,) = delivery.values()
                await delivery.ack(wait=True)
            stats = await client.sinks.stats("orders")
            return receipt.first_offset, value, stats.subscriptions[0].partitions[0].acked

    assert asyncio.run(run()) == (0, b"value", 1)


def test_another_event_loop_is_refused(endpoint: str) -> None:
    client = aio.Client(endpoint)
    refused: list[str] = []

    async def use() -> None:
        try:
            await client.sinks.list()
        except Closed as error:
            refused.append(error.reason)

    async def run() -> None:
        await client.sinks.list()
        other = threading.Thread(target=lambda: asyncio.run(use()))
        other.start()
        await asyncio.to_thread(other.join)
        await client.close()

    asyncio.run(run())

    assert refused == [Reason.FOREIGN_LOOP.name]


def test_use_outside_of_an_event_loop_is_refused(endpoint: str) -> None:
    with pytest.raises(Closed, match="outside of an event loop"):
        aio.Client(endpoint).replay_pages("orders", partition=0).__anext__().send(None)


def test_every_operation_of_the_thread_client_exists_in_the_asyncio_client() -> None:
    with Client("127.0.0.1:1") as blocking:
        awaiting = aio.Client("127.0.0.1:1")
        parts = {"": (blocking, awaiting)} | {
            name: (part, getattr(awaiting, name)) for name, part in vars(blocking).items() if not name.startswith("_")
        }
        missing = {
            f"{name}.{operation}"
            for name, (one, other) in parts.items()
            for operation in dir(one)
            if not operation.startswith("_") and not hasattr(other, operation)
        }

    assert missing == {".consumer", ".position_store"}  # their stores block


def test_a_delivery_is_read_and_acked_in_another_thread(endpoint: str) -> None:
    async def run() -> tuple[list[bytes], int]:
        async with aio.Client(endpoint) as client:
            await client.publish("orders", [Record(b"value")])
            async with client.subscriber("orders") as subscriber:
                delivery = await anext(subscriber)

                def work() -> list[bytes]:
                    values = [record.value for record in delivery]
                    delivery.ack()
                    return values

                values = await asyncio.to_thread(work)
                async for stats in client.sinks.watch("orders"):
                    if stats.subscriptions[0].partitions[0].acked:
                        return values, stats.subscriptions[0].partitions[0].acked
        raise AssertionError("a watch has no end")

    assert asyncio.run(run(), debug=True) == ([b"value"], 1)


def test_a_receipt_can_be_awaited_in_another_event_loop(endpoint: str) -> None:
    async def run() -> int | None:
        async with aio.Client(endpoint) as client, await client.publisher("orders") as publisher:
            pending = await publisher.send(b"value")

            async def wait() -> int | None:
                return (await pending).first_offset

            return await asyncio.to_thread(lambda: asyncio.run(wait()))

    assert asyncio.run(run()) == 0


def test_a_client_whose_end_after_an_exception_is_cancelled_leaves_no_task_behind(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(publisher: Publisher) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Publisher, "abandon", endless)

    async def used_and_failed() -> None:
        async with asyncio.timeout(0.5), aio.Client(endpoint) as client:
            await client.publisher("orders")
            assert await client.subscriber("orders").take(0.05) is None
            raise ZeroDivisionError

    async def run() -> set[str]:
        with pytest.raises(TimeoutError):
            await used_and_failed()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=10)
        return {task.get_name() for task in others if not task.done()}

    assert asyncio.run(run()) == set()


def test_a_cancelled_end_of_a_client_leaves_no_task_behind() -> None:
    async def run() -> tuple[str, set[str]]:
        found = broker()
        running = found.__enter__()
        async with aio.Client(running.endpoint) as admin:
            await admin.sinks.create("orders")
        client = aio.Client(running.endpoint)
        publisher = await client.publisher("orders")
        subscriber = client.subscriber("orders")
        assert await subscriber.take(0.05) is None
        await asyncio.to_thread(found.__exit__, None, None, None)
        pending = await publisher.send(b"never durable")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=10)
        with pytest.raises(Closed) as failed:
            await pending
        return failed.value.reason, {task.get_name() for task in others if not task.done()}

    assert asyncio.run(run()) == (Reason.PUBLISH_ABANDONED.name, set())
