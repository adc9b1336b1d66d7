"""One asyncio client does what a thread client does, in its own event loop only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from forebay.client import Client, Closed, aio
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
