"""Named consumers that resume where they stopped, over gRPC, with positions in a directory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Unpack

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import Client, DropReason, InvalidArgument, Overflow, Record
from forebay.client.errors import (
    FailedPrecondition,
    PositionFenced,
    PositionStoreUnavailable,
    PositionUnusable,
    SubscriptionNotFound,
)
from forebay.client.positions.consumer import Batch, CheckpointedConsumer
from forebay.client.positions.settings import ConsumerOptions, ConsumerSettings
from forebay.client.positions.store import PositionStore, Versioned
from forebay.client.transport.channel import Channels
from forebay.client.values.subscriptions import Position
from tests.support.positions.flaky import FlakyPositions

WAIT_S = 30.0
Place = tuple[int, int]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/positions"


@pytest.fixture
def consumer(client: Client, store: str) -> Callable[..., CheckpointedConsumer]:
    """Opens a consumer ``billing`` of ``orders``."""

    def opened(name: str = "billing", **options: Unpack[ConsumerOptions]) -> CheckpointedConsumer:
        return client.consumer("orders", name, store=store, **options)

    return opened


def publish(client: Client, count: int, *, partition: int = 0) -> None:
    client.publish("orders", [Record(value=b"%d" % number) for number in range(count)], partition=partition)


def places(batch: Batch) -> list[Place]:
    return [(batch.partition, offset) for offset in range(batch.first_offset, batch.last_offset + 1)]


def read_all(consumer: CheckpointedConsumer) -> list[Place]:
    with consumer:
        return [place for batch in consumer for place in places(batch)]


def test_a_consumer_resumes_after_what_it_finished(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", partitions=3)
    for partition in range(3):
        publish(client, 10, partition=partition)
    assert len(read_all(consumer(follow=False))) == 30
    publish(client, 5, partition=1)

    again = read_all(consumer(follow=False))

    assert again == [(1, offset) for offset in range(10, 15)]


def test_the_batch_that_was_not_finished_is_read_again(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    for _ in range(4):
        publish(client, 1)
    with consumer() as one:
        for _ in range(3):
            assert one.take(WAIT_S) is not None

    assert read_all(consumer(follow=False))[0] == (0, 2)


def test_at_most_once_never_reads_a_batch_again(client: Client, consumer: Callable[..., CheckpointedConsumer]) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    for _ in range(4):
        publish(client, 1)
    one = consumer(guarantee="at_most_once")
    batch = one.take(WAIT_S)
    assert batch is not None

    later = read_all(consumer(guarantee="at_most_once", follow=False))  # the first one is not closed: as after a kill

    assert not set(places(batch)) & set(later)
    with pytest.raises(PositionFenced):
        one.take(WAIT_S)
    with pytest.raises(PositionFenced):
        one.close()


def test_records_that_finish_out_of_order_do_not_pass_an_unfinished_one(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 11)
    with consumer(auto_finish=False) as one:
        batch = one.take(WAIT_S)
        assert batch is not None
        batch.finish(0, 6)
        batch.finish(10, 10)
        one.save()
        assert one.statistics.positions == {0: 7}
        assert one.statistics.saved == {0: 7}
        with pytest.raises(InvalidArgument):
            batch.finish(11, 11)

    assert read_all(consumer(follow=False)) == [(0, offset) for offset in range(7, 11)]


def test_a_second_consumer_of_the_name_replaces_the_first(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 3)
    first = consumer()
    assert first.take(WAIT_S) is not None
    with consumer() as second:
        assert second.take(WAIT_S) is not None

        publish(client, 1)
        assert first.take(WAIT_S) is not None
        with pytest.raises(PositionFenced, match="another consumer named 'billing'"):
            first.save()
        with pytest.raises(PositionFenced):
            first.close()


def test_consumers_of_other_names_and_namespaces_are_independent(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 3)

    assert len(read_all(consumer(follow=False))) == 3
    assert len(read_all(consumer("audit", follow=False))) == 3
    assert len(read_all(consumer(follow=False, namespace="staging"))) == 3


def test_new_records_are_waited_for(client: Client, consumer: Callable[..., CheckpointedConsumer]) -> None:
    client.sinks.create("orders")
    with consumer() as one:
        assert one.take(0.05) is None
        publish(client, 2)

        batch = one.take(WAIT_S)

    assert batch is not None
    assert [record.value for record in batch if not hasattr(record, "reason")] == [b"0", b"1"]


def test_partitions_that_were_added_are_read_from_their_earliest_record(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    with consumer(start="latest", refresh_s=0.1) as one:
        assert one.take(0.01) is None
        client.sinks.update("orders", partitions=2)
        publish(client, 2, partition=1)

        batch = one.take(WAIT_S)
        while batch is None:
            batch = one.take(WAIT_S)

    assert places(batch) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("start", ["latest", 10, {1: 10}])
def test_partitions_that_were_added_while_the_consumer_was_stopped_are_read_from_their_earliest_record(
    client: Client, consumer: Callable[..., CheckpointedConsumer], start: Position
) -> None:
    client.sinks.create("orders")
    publish(client, 10)
    assert len(read_all(consumer(follow=False))) == 10
    client.sinks.update("orders", partitions=3)
    for partition in (1, 2):
        publish(client, 3, partition=partition)

    again = read_all(consumer(follow=False, start=start))

    assert sorted(again) == [(partition, offset) for partition in (1, 2) for offset in range(3)]


def test_partitions_that_were_added_after_a_deleted_sink_was_created_again_are_no_additions(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 3)
    read_all(consumer(follow=False))
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=2)
    for partition in range(2):
        publish(client, 3, partition=partition)

    found = read_all(consumer(follow=False, start="latest", on_misfit="earliest"))

    assert found == [(0, 0), (0, 1), (0, 2)]  # the misfit of partition 0; the start point of partition 1


def test_a_partition_that_was_added_while_stopped_is_read_from_the_lowest_unsettled_record_of_a_subscription(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    client.subscriptions.create("orders", "audit")
    publish(client, 2)
    read_all(consumer(subscription="audit", follow=False))
    client.sinks.update("orders", partitions=2)
    publish(client, 5, partition=1)
    client.subscriptions.settle("orders", "audit", offsets={1: 2})

    assert read_all(consumer(subscription="audit", start="latest", follow=False)) == [(1, 2), (1, 3), (1, 4)]
    assert unsettled(client, "audit") == 0


def test_a_saved_position_that_was_trimmed_is_an_error_that_names_both_numbers(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    publish(client, 4)
    with consumer() as one:
        assert one.take(WAIT_S) is not None
    client.subscriptions.settle("orders", offsets={0: 4})

    with pytest.raises(PositionUnusable) as refused, consumer() as one:
        one.take(WAIT_S)

    assert (refused.value.fact("saved_offset"), refused.value.fact("earliest_offset")) == (0, 4)


def test_a_saved_position_that_was_trimmed_continues_with_a_gap_by_policy(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    publish(client, 4)
    with consumer() as one:
        assert one.take(WAIT_S) is not None
    client.subscriptions.settle("orders", offsets={0: 4})
    publish(client, 1)

    with consumer(on_misfit="earliest") as one:
        gap, batch = one.take(WAIT_S), one.take(WAIT_S)

    assert gap is not None
    assert gap.gap is not None
    assert (gap.first_offset, gap.last_offset, gap.gap.reason) == (0, 3, DropReason.TRIMMED)
    assert batch is not None
    assert places(batch) == [(0, 4)]


@pytest.mark.parametrize("start", [1, 100])
def test_a_start_offset_that_is_not_there_is_an_error_and_another_one_can_be_named(
    client: Client, consumer: Callable[..., CheckpointedConsumer], start: int
) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    publish(client, 4)
    client.subscriptions.settle("orders", offsets={0: 4})
    publish(client, 1)

    with pytest.raises(PositionUnusable) as refused, consumer(start=start) as one:
        one.take(WAIT_S)

    assert (refused.value.fact("start_offset"), refused.value.fact("earliest_offset")) == (start, 4)
    with consumer(start=4, follow=False) as one:  # nothing was saved
        assert [place for batch in one for place in places(batch)] == [(0, 4)]


def test_a_start_offset_that_was_trimmed_begins_at_the_earliest_record_after_a_gap_by_policy(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1)
    publish(client, 4)
    client.subscriptions.settle("orders", offsets={0: 4})
    publish(client, 1)

    with consumer(start=1, on_misfit="earliest", follow=False) as one:
        gap, batch = list(one)

    assert gap.gap is not None
    assert (gap.first_offset, gap.last_offset, gap.gap.reason) == (1, 3, DropReason.TRIMMED)
    assert places(batch) == [(0, 4)]


def test_dropped_records_after_a_start_offset_are_a_gap_and_no_error(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1, max_disk_cache=2, overflow=Overflow.DROP_OLDEST)
    for _ in range(5):
        publish(client, 1)

    with consumer(start=1, follow=False) as one:
        found = list(one)

    assert found[0].gap is not None
    assert found[0].gap.reason is DropReason.OVERFLOW
    assert [place for batch in found for place in places(batch)] == [(0, offset) for offset in range(1, 5)]


def test_dropped_records_after_a_saved_position_are_a_gap_and_no_error(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", buffer_page_size=1, max_disk_cache=2, overflow=Overflow.DROP_OLDEST)
    publish(client, 1)
    with consumer() as one:
        assert one.take(WAIT_S) is not None
    for _ in range(4):
        publish(client, 1)

    with consumer(follow=False) as one:
        found = list(one)

    assert found[0].gap is not None
    assert found[0].gap.reason is DropReason.OVERFLOW
    assert [place for batch in found for place in places(batch)] == [(0, offset) for offset in range(5)]


def test_a_position_of_a_deleted_sink_does_not_fit_its_successor(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 4)
    read_all(consumer(follow=False))
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders")
    publish(client, 6)

    with pytest.raises(PositionUnusable, match="former sink"), consumer() as one:
        one.take(WAIT_S)
    assert len(read_all(consumer(follow=False, on_misfit="earliest"))) == 6


def test_without_checkpointing_nothing_is_saved_and_every_start_is_the_start_point(
    client: Client, consumer: Callable[..., CheckpointedConsumer], tmp_path: Path
) -> None:
    client.sinks.create("orders")
    publish(client, 4)

    for _ in range(2):
        assert len(read_all(consumer(follow=False, checkpointing=False))) == 4
    assert not [path for path in (tmp_path / "positions").rglob("*") if path.is_file()]


def unsettled(client: Client, name: str = "default") -> int:
    return client.sinks.stats("orders").pending(name)


def test_records_of_a_subscription_are_settled_after_the_save_and_not_before(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", partitions=2)
    for partition in range(2):
        publish(client, 5, partition=partition)

    with consumer(subscription="default", frequency_s=3600.0) as one:
        batches = [one.take(WAIT_S), one.take(WAIT_S)]
        assert one.take(0.01) is None
        assert (len(batches), unsettled(client)) == (2, 10)
        one.save()
        assert unsettled(client) == 0


def test_without_a_saved_position_a_subscription_is_read_from_its_lowest_unsettled_record(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 6)
    client.subscriptions.create("orders", "audit")
    client.subscriptions.settle("orders", "audit", offsets={0: 4})

    assert read_all(consumer(subscription="audit", follow=False)) == [(0, 4), (0, 5)]
    assert (unsettled(client, "audit"), unsettled(client)) == (0, 6)


def test_a_saved_position_wins_over_a_subscription_and_settles_what_a_crash_left(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 4)
    read_all(consumer(subscription="default", settle=False, follow=False))  # saved, and then a crash
    publish(client, 1)
    assert unsettled(client) == 5

    assert read_all(consumer(subscription="default", follow=False)) == [(0, 4)]
    assert unsettled(client) == 0


def test_with_a_start_point_the_records_of_a_subscription_before_it_are_settled(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 4)

    with consumer(subscription="default", start="latest") as one:
        assert one.take(0.01) is None
        assert unsettled(client) == 0


def test_while_the_store_is_unreachable_nothing_of_a_subscription_is_settled(client: Client) -> None:
    client.sinks.create("orders")
    publish(client, 4)
    store = FlakyPositions(client.position_store("memory:away"), [None, "before"])
    settings = ConsumerSettings(subscription="default", frequency_s=0, save_failures_max=0)
    with CheckpointedConsumer(
        Channels(client.endpoints, client.settings), "orders", "billing", store=store, settings=settings
    ) as one:
        batch = one.take(WAIT_S)
        assert batch is not None
        batch.finish()
        with pytest.raises(PositionStoreUnavailable):
            one.save()
        assert unsettled(client) == 4

    assert unsettled(client) == 0


def test_partitions_that_a_failure_left_out_at_the_start_are_read_by_the_next_call(client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    for partition in range(2):
        publish(client, 3, partition=partition)
    store = FlakyPositions(client.position_store("memory:left-out"), [None, "before"])
    one = CheckpointedConsumer(
        Channels(client.endpoints, client.settings),
        "orders",
        "billing",
        store=store,
        settings=ConsumerSettings(follow=False),
    )

    with one:
        with pytest.raises(PositionStoreUnavailable):
            one.take(WAIT_S)
        found = [place for batch in one for place in places(batch)]

    assert sorted(found) == [(partition, offset) for partition in range(2) for offset in range(3)]


def test_partitions_that_a_first_start_left_out_begin_at_the_start_point_of_the_next_consumer(client: Client) -> None:
    client.sinks.create("orders", partitions=3)
    for partition in range(3):
        publish(client, 3, partition=partition)
    shared = client.position_store("memory:half-started")
    with pytest.raises(PositionStoreUnavailable), in_store(client, FlakyPositions(shared, [None, "before"])) as one:
        one.take(WAIT_S)  # which takes over one partition of three
    assert len(list(shared.list(""))) == 1
    client.sinks.update("orders", partitions=4)
    for partition in range(4):
        publish(client, 1, partition=partition)

    found = read_all(in_store(client, shared, follow=False))

    assert sorted(found) == [(2, 3), (3, 0)]  # new after the first start, and added since


def test_a_start_offset_that_does_not_fit_one_partition_leaves_no_position_in_another(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders", partitions=3)
    publish(client, 5, partition=0)
    publish(client, 2, partition=1)
    publish(client, 5, partition=2)

    with pytest.raises(PositionUnusable), consumer(start=4) as one:
        one.take(WAIT_S)

    found = read_all(consumer(start=1, follow=False))  # nothing was saved
    assert sorted(found) == [(partition, offset) for partition, end in enumerate((5, 2, 5)) for offset in range(1, end)]


def in_store(client: Client, store: PositionStore, *, follow: bool = True) -> CheckpointedConsumer:
    """Open a consumer from the end of ``orders`` with a store that is not named by a URL."""
    return CheckpointedConsumer(
        Channels(client.endpoints, client.settings),
        "orders",
        "billing",
        store=store,
        settings=ConsumerSettings(start="latest", follow=follow),
    )


def test_a_subscription_that_is_missing_or_used_by_others_is_an_error(
    client: Client, consumer: Callable[..., CheckpointedConsumer]
) -> None:
    client.sinks.create("orders")
    publish(client, 4)
    with (
        pytest.raises(SubscriptionNotFound, match="has no subscription 'audit'"),
        consumer(subscription="audit") as one,
    ):
        one.take(WAIT_S)

    with client.subscriber("orders") as subscriber:
        assert subscriber.take(WAIT_S) is not None
        with consumer(subscription="default", start="latest") as one, pytest.raises(FailedPrecondition) as refused:
            one.take(WAIT_S)
    assert refused.value.reason == "SUBSCRIPTION_IN_USE"


def test_a_consumer_starts_at_a_time(tmp_path: Path) -> None:
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders")
        publish(client, 3)
        noon = datetime.fromtimestamp(clock.wall / 1_000_000, UTC) + timedelta(seconds=30)
        clock.advance(60)
        publish(client, 2)

        with client.consumer("orders", "billing", store=f"file://{tmp_path}", start=noon, follow=False) as one:
            assert [place for batch in one for place in places(batch)] == [(0, 3), (0, 4)]


def test_closing_the_client_saves_what_is_finished(store: str, broker: BrokerServer) -> None:
    with Client(broker.endpoint) as first:
        first.sinks.create("orders")
        publish(first, 5)
        one = first.consumer("orders", "billing", store=store)
        batch = one.take(WAIT_S)
        assert batch is not None
        batch.finish()

    with Client(broker.endpoint) as client:
        assert read_all(client.consumer("orders", "billing", store=store, follow=False)) == []


def test_a_consumer_takes_over_while_the_one_before_it_reads_new_records(client: Client) -> None:
    class Overtaken(FlakyPositions):
        def read(self, key: str) -> Versioned | None:
            """Let the previous consumer continue between the check of the sink and this read."""
            if publish_first.pop("now", False):
                publish(client, 3)
                assert first.take(WAIT_S) is not None
                first.save()
            return super().read(key)

    client.sinks.create("orders")
    publish_first = {"now": False}
    first = client.consumer("orders", "billing", store="memory:overtaken", guarantee="at_most_once")
    assert first.take(0.01) is None
    publish_first["now"] = True
    store = Overtaken(client.position_store("memory:overtaken"))
    second = CheckpointedConsumer(
        Channels(client.endpoints, client.settings),
        "orders",
        "billing",
        store=store,
        settings=ConsumerSettings(guarantee="at_most_once"),
    )

    with second:
        assert second.take(0.01) is None
        publish(client, 1)
        batch = second.take(WAIT_S)

    assert batch is not None
    assert places(batch) == [(0, 3)]
    with pytest.raises(PositionFenced):
        first.take(WAIT_S)
    with pytest.raises(PositionFenced):
        first.close()
