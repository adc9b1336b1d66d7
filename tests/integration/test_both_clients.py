"""The thread client and the asyncio client do the same: each scenario runs over both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import (
    BufferFull,
    Client,
    ClientSettings,
    EpochCommit,
    FlushTimeout,
    Gap,
    GapError,
    InvalidArgument,
    Record,
    RecordTooLarge,
    RetryPolicy,
    SettleOutcome,
    SinkNotFound,
    SinkReplaced,
    Stage,
    arrow,
    partition_of,
)
from forebay.client.publish.pages import encode_columns
from forebay.errors.reasons import Reason
from tests.support.clients.both import RUNNERS, Scenario
from tests.support.refusals import failure

Run = Callable[[Scenario], None]
QUICK = ClientSettings(reconnect=RetryPolicy(tries_max=None, delay_min_s=0.01, delay_max_s=0.05, budget_s=None))


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Any:
    return RUNNERS[request.param]


@pytest.fixture
def run(runner: Any, broker: BrokerServer) -> Run:
    """Runs a scenario with one of the clients; the sink `orders` with two partitions exists."""
    with Client(broker.endpoint) as client:
        client.sinks.create("orders", partitions=2)
    return lambda scenario: runner(broker.endpoint, scenario)


async def read(client: Any, partition: int) -> list[bytes]:
    return [record.value async for record in client.replay("orders", partition=partition)]


async def deliveries(subscriber: Any, records: int) -> list[Any]:
    """Return deliveries with so many records together."""
    found: list[Any] = []
    while sum(len(one) for one in found) < records:
        delivery = await subscriber.take(20)
        assert delivery is not None
        found.append(delivery)
    return found


# --- publishing -------------------------------------------------------------------------------------------------------


def test_each_record_gets_its_own_receipt(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders") as publisher:
            pending = [await publisher.send(b"%d" % number, partition=1) for number in range(100)]
            receipts = [await one for one in pending]
            assert all(one.done() for one in pending)
            again = await pending[3]

        assert [(one.partition, one.first_offset, one.last_offset) for one in receipts] == [
            (1, number, number) for number in range(100)
        ]
        assert again == receipts[3]
        assert await read(client, 1) == [b"%d" % number for number in range(100)]

    run(scenario)


def test_records_keep_keys_headers_times_and_their_order_per_key(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders", page_records=7) as publisher:
            for number in range(200):
                key = b"k%d" % (number % 5)
                await publisher.send(b"%d" % number, key=key, headers=[("n", b"%d" % number)], event_time=number)
        found = [*await records(client, 0), *await records(client, 1)]

        assert {record.partition == partition_of(record.key, 2) for record in found} == {True}
        for name in {record.key for record in found}:
            numbers = [int(record.value) for record in found if record.key == name]
            assert numbers == sorted(numbers)
            assert len(numbers) == 40
        assert {record.headers[0][1] == record.value for record in found} == {True}

    run(scenario)


async def records(client: Any, partition: int) -> list[Any]:
    return [record async for record in client.replay("orders", partition=partition)]


def test_bulks_and_pages_are_published_in_order_with_single_records(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders") as publisher:
            first = await publisher.send(b"first", partition=0)
            many = await publisher.send_many([b"%d" % number for number in range(70_000)], partition=0)
            page = await publisher.send_page(encode_columns([b"a", b"b"]), partition=0)
            last = publisher.send_nowait(b"last", partition=0)
            assert (await first).first_offset == 0
            assert [(one.first_offset, one.last_offset) for one in await many][-1][1] == 70_000
            assert ((await page).first_offset, (await page).last_offset) == (70_001, 70_002)
            assert (await last).first_offset == 70_003

        assert await read(client, 0) == [b"first", *(b"%d" % number for number in range(70_000)), b"a", b"b", b"last"]

    run(scenario)


def test_a_full_buffer_holds_back_and_loses_nothing(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders", buffer_bytes_max=4096, linger_ms=0) as publisher:
            for number in range(300):
                await publisher.send(b"%1000d" % number, partition=0)
            await publisher.send_many([b"%1000d" % number for number in range(300, 330)], partition=0)
            await publisher.send_page(encode_columns([b"%1000d" % 330]), partition=0)
            await publisher.flush()

        assert [int(value) for value in await read(client, 0)] == list(range(331))

    run(scenario)


def test_a_record_that_does_not_fit_is_refused_without_a_wait(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders", buffer_bytes_max=1024, linger_ms=60_000) as publisher:
            publisher.send_nowait(b"x" * 1000)
            with pytest.raises(BufferFull):
                publisher.send_nowait(b"x" * 100)
            with pytest.raises(FlushTimeout):
                await publisher.flush(0)

    run(scenario)


def test_records_that_are_wrong_are_refused(run: Run) -> None:
    async def scenario(client: Any) -> None:
        async with await client.publisher("orders") as publisher:
            with failure(Reason.INVALID_PARTITION):
                await publisher.send(b"x", partition=2)
            with failure(Reason.INVALID_PAGE):
                await publisher.send("text")
            with failure(Reason.INVALID_PAGE):
                await publisher.send_many([b"x"], keys=[])
            with pytest.raises(RecordTooLarge):
                await publisher.send(b"x" * (9 << 20))
        with failure(Reason.PUBLISHER_CLOSED):
            await publisher.send(b"x")
        with pytest.raises(SinkNotFound):
            await client.publisher("missing")

    run(scenario)


def test_a_failure_reaches_the_receipt_the_flush_and_the_callback(run: Run) -> None:
    async def scenario(client: Any) -> None:
        failed: list[tuple[str, int]] = []
        publisher = await client.publisher(
            "orders", on_failure=lambda error, count: failed.append((error.reason, count))
        )
        await (await publisher.send(b"x"))
        await client.sinks.delete("orders", force=True)
        pending = await publisher.send(b"y")
        with pytest.raises((SinkNotFound, SinkReplaced)):
            await pending
        with pytest.raises((SinkNotFound, SinkReplaced)):
            await publisher.flush()
        await publisher.abandon()
        assert [count for _, count in failed] == [1]

    run(scenario)


def test_a_close_flushes_and_an_exception_abandons(run: Run) -> None:
    async def scenario(client: Any) -> None:
        publisher = await client.publisher("orders", linger_ms=60_000)
        kept = await publisher.send(b"kept", partition=0)
        await publisher.close()
        await publisher.close()
        assert (await kept).first_offset == 0
        with suppress(ZeroDivisionError):
            async with await client.publisher("orders", linger_ms=60_000) as publisher:
                lost = await publisher.send(b"lost", partition=0)
                raise ZeroDivisionError
        with failure(Reason.PUBLISH_ABANDONED):
            await lost

    run(scenario)


def test_unary_calls_publish_pull_settle_and_peek(run: Run) -> None:
    async def scenario(client: Any) -> None:
        [receipt] = await client.publish("orders", [Record(b"a"), Record(b"b"), Record(b"c")], partition=0)
        assert (receipt.first_offset, receipt.last_offset) == (0, 2)
        assert [one.value for one in await client.peek("orders", max_records=2)] == ["a", "b"]
        pulled = await client.pull("orders", max_records=10)
        assert [one.value for one in pulled] == [b"a", b"b", b"c"]
        assert [one.outcome for one in await client.ack("orders", pulled[0])] == [SettleOutcome.OK]
        assert [one.outcome for one in await client.nack("orders", pulled[1:], delay_s=0.0)] == [SettleOutcome.OK]
        assert (await client.pull("orders", wait_s=10))[0].value == b"b"
        assert await client.offset_at("orders", pulled[0].accepted_at, partition=0) == 0
        assert (await client.info()).version

    run(scenario)


# --- consuming --------------------------------------------------------------------------------------------------------


def test_deliveries_are_iterated_acked_and_nacked(run: Run) -> None:
    async def scenario(client: Any) -> None:
        await client.publish("orders", [Record(b"%d" % number) for number in range(10)], partition=0)
        async with client.subscriber("orders") as subscriber:
            [delivery] = await deliveries(subscriber, 10)
            assert [record.value for record in delivery] == [b"%d" % number for number in range(10)]
            delivery.ack(0, 3)
            assert [one.outcome for one in await delivery.nack_from(4, delay_s=0.0, wait=True)] == [SettleOutcome.OK]
            [again] = await deliveries(subscriber, 6)
            assert [(record.offset, record.resend) for record in again] == [(number, True) for number in range(4, 10)]
            await again.dead_letter("wrong", offset=4, wait=True)
            await again.ack(5, 9, wait=True)
            assert await again.ack(wait=True) != []
            assert await subscriber.take(0) is None
        assert [one.record.value async for one in client.dead_letters.list("orders")] == [b"4"]
        assert await client.dead_letters.redrive("orders") == 1
        assert await client.dead_letters.purge("orders") == 0
        stats = await client.sinks.stats("orders")
        ends = {one.partition: one.next_offset for one in stats.partitions}
        await client.publish("orders", [Record(b"later")], partition=1)
        await client.sinks.purge("orders", end_offsets=ends, incarnation=stats.incarnation)
        assert [one.records for one in (await client.sinks.stats("orders")).partitions] == [0, 1]
        assert await client.dead_letters.purge("orders", end_offsets={}) == 0

    run(scenario)


def test_an_iteration_ends_when_the_subscriber_is_closed_and_the_rest_is_delivered_again(run: Run) -> None:
    async def scenario(client: Any) -> None:
        await client.publish("orders", [Record(b"%d" % number) for number in range(4)], partition=1)
        seen = []
        async with client.subscriber("orders") as subscriber:
            async for delivery in subscriber:
                seen += delivery.values()
                await subscriber.close()
        assert seen == [b"0", b"1", b"2", b"3"]
        with failure(Reason.SUBSCRIBER_CLOSED):
            subscriber.set_credit(records=1, bytes_=1)
        async with client.subscriber("orders") as other:
            other.set_credit(records=100, bytes_=1 << 20)
            [delivery] = await deliveries(other, 4)
            assert delivery.values() == seen

    run(scenario)


def test_a_gap_is_reported_by_a_subscriber_and_by_a_replay(run: Run) -> None:
    async def scenario(client: Any) -> None:
        for value in (b"a", b"b", b"c"):
            await client.publish("orders", [Record(value)], partition=0)
        await client.subscriptions.create("orders", "late", start="earliest")
        await client.sinks.purge("orders", partition=0, until_offset=2)
        async with client.subscriber("orders", subscription="late") as subscriber:
            missing: list[int] = []
            while (delivery := await subscriber.take(20)).gap is not None:
                missing += range(delivery.first_offset, delivery.last_offset + 1)
                assert await delivery.ack(wait=True) == []
            assert missing == [0, 1]
            assert delivery.values() == [b"c"]
        steps = [step async for step in client.replay("orders", partition=0, start=0, on_gap="yield")]
        assert isinstance(steps[0], Gap)
        assert steps[-1].value == b"c"
        with pytest.raises(GapError):
            [step async for step in client.replay("orders", partition=0, start=0)]
        assert [(one.first_offset, one.last_offset) async for one in client.sinks.gaps("orders")]

    run(scenario)


def test_rows_with_a_schema_are_read_as_records(run: Run) -> None:
    batch = pa.record_batch({"id": pa.array([1, 2])})

    async def scenario(client: Any) -> None:
        version = await client.schemas.register("orders", arrow.encode_schema(batch.schema), previous=0)
        async with await client.publisher("orders") as publisher:
            await (await publisher.send_page(arrow.page(batch, version), partition=0))
        wanted = [b'{"id":1}', b'{"id":2}']
        assert await read(client, 0) == wanted
        async with client.subscriber("orders") as subscriber:
            [delivery] = await deliveries(subscriber, 2)
            assert delivery.values() == wanted
        assert [one.version for one in await client.schemas.list("orders")] == [1]

    run(scenario)


def test_all_partitions_are_replayed_by_page_and_followed(run: Run) -> None:
    async def scenario(client: Any) -> None:
        for partition in (0, 1):
            await client.publish("orders", [Record(b"%d" % partition)] * 3, partition=partition)
        pages = [page async for page in client.replay_pages("orders")]
        assert [(page.partition, len(page)) for page in pages] == [(0, 3), (1, 3)]
        async with client.replay("orders", partition=1, start=1, follow=True) as replay:
            found = [await anext(replay), await anext(replay)]
            await client.publish("orders", [Record(b"new")], partition=1)
            found.append(await anext(replay))
        assert [one.value for one in found] == [b"1", b"1", b"new"]
        with pytest.raises(InvalidArgument):
            [step async for step in client.replay_pages("orders", start=1)]
        with pytest.raises(StopAsyncIteration):
            await anext(replay)

    run(scenario)


# --- administration ---------------------------------------------------------------------------------------------------


def test_sinks_and_subscriptions_are_managed(run: Run) -> None:
    async def scenario(client: Any) -> None:
        assert (await client.sinks.get("orders")).settings.partitions == 2
        await client.sinks.create("orders", partitions=2, exist_ok=True)
        await client.sinks.update("orders", ack_deadline_s=7)
        assert [(one.name, one.settings.ack_deadline_s) for one in await client.sinks.list()] == [("orders", 7)]
        await client.sinks.pause("orders", "maintenance")
        await client.sinks.resume("orders")
        await client.subscriptions.create("orders", "audit", start="latest")
        assert [one.name for one in await client.subscriptions.list("orders")] == ["audit", "default"]
        [place, _] = await client.subscriptions.seek("orders", "audit", to="earliest")
        assert place.partition == 0
        await client.subscriptions.delete("orders", "audit")
        await client.publish("orders", [Record(b"x")], partition=0)
        assert (await client.subscriptions.settle("orders", offsets={0: 1}))[0].partition == 0
        assert (await client.sinks.explain("orders", 0)).offset == 0
        watch = client.sinks.watch("orders", interval_s=0.1)
        assert (await anext(watch)).name == (await client.sinks.stats("orders")).name
        async for stats in watch:
            assert stats.name == "orders"
            break
        assert [one async for one in client.positions.list()] == []
        await client.sinks.delete("orders", force=True)
        with pytest.raises(SinkNotFound):
            await client.sinks.get("orders")

    run(scenario)


def test_staged_records_become_visible_with_their_commit(run: Run) -> None:
    async def scenario(client: Any) -> None:
        stage = Stage("query", 7, "run-1", await client.epochs.take_ticket("orders"), write_name="w")
        async with await client.publisher("orders", stage=stage) as publisher:
            await publisher.send_many([b"a", b"b"], partition=0)
            await publisher.flush()
            token = publisher.staged()
        assert await read(client, 0) == []
        await client.epochs.commit([EpochCommit.of("orders", stage, [token])])
        assert await read(client, 0) == [b"a", b"b"]
        assert (await client.epochs.get("orders", "query")).epoch == 7
        assert [one.producer async for one in client.epochs.list("orders")] == ["query"]
        assert await client.epochs.abort("orders", "query", 8, ["unknown"]) == 0

    run(scenario)


def test_failed_records_are_leased_and_settled(run: Run) -> None:
    async def scenario(client: Any) -> None:
        await client.sinks.create("relaxed", ordering="RELAXED")
        await client.publish("relaxed", [Record(b"%d" % number) for number in range(4)])
        pulled = await client.pull("relaxed")
        await client.nack("relaxed", pulled[:2], delay_s=0.0)
        found = await client.resends.lease("relaxed", holder="job")
        assert found.records == 2
        again = await client.resends.lease_again("relaxed", holder="job", ranges=found.partitions)
        assert again.records == 2
        results = await client.resends.settle("relaxed", holder="job", ranges=found.partitions)
        assert [one.outcome for one in results] == [SettleOutcome.OK]
        assert await client.resends.release("relaxed", holder="job") == 0

    run(scenario)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_publisher_subscriber_and_replay_survive_a_restart_of_the_broker(runner: Any) -> None:
    store = MemoryStore()
    servers = [BrokerServer.in_memory(store)]
    servers[0].start()
    endpoint = servers[0].endpoint

    async def scenario(client: Any) -> None:
        await client.sinks.create("orders", retain_acked_time_s=3600)
        async with await client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:
            await (await publisher.send(b"before"))
            [delivery] = await deliveries(subscriber, 1)
            await delivery.ack(wait=True)
            async with client.replay("orders", partition=0, follow=True) as replay:
                assert (await anext(replay)).value == b"before"
                servers[0].stop()
                pending = [await publisher.send(b"during-%d" % number) for number in range(50)]
                servers.append(BrokerServer.in_memory(store.reopen(), listen=endpoint))
                servers[1].start()
                assert [(await one).first_offset for one in pending] == list(range(1, 51))
                later = await deliveries(subscriber, 50)
                assert [value for one in later for value in one.values()] == [b"during-%d" % n for n in range(50)]
                assert [(await anext(replay)).value for _ in range(50)] == [b"during-%d" % n for n in range(50)]

    try:
        runner(endpoint, scenario, settings=QUICK)
    finally:
        servers[-1].stop()
