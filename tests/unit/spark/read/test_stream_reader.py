"""Driven as Spark drives it: initial offset twice, then the latest, partitions, read and commit, and restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from forebay.client import Record, testing
from forebay.client.positions.position import SavedPosition
from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource, ForebaySparkError
from forebay.spark.read.offsets import parsed
from forebay.spark.read.stream_reader import ForebayStreamReader

ALL = ReadAllAvailable()


def reader(broker: TestBroker, **options: str) -> ForebayStreamReader:
    """Return what a query gets when it starts, or starts again."""
    source = ForebayDataSource({"endpoint": broker.endpoint} | {"sink": "orders"} | options)
    found = source.streamReader(source.schema())
    assert isinstance(found, ForebayStreamReader)
    return found


def fill(broker: TestBroker, records: int, *, partition: int = 0) -> None:
    with broker.client() as client:
        client.publish("orders", [Record(b"%d" % n) for n in range(records)], partition=partition)


def recreate(broker: TestBroker, records: int) -> None:
    """Delete the sink and create it again, with that many records in the first partition."""
    with broker.client() as client:
        client.sinks.delete("orders", force=True)
        client.sinks.create("orders", partitions=2)
    fill(broker, records)


def through_the_log(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as it is read from the checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def latest(query: ForebayStreamReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    return through_the_log(query.latestOffset(through_the_log(start), limit))


def places(offset: dict[str, Any]) -> dict[int, int]:
    return dict(parsed(offset).partitions)


def rows(query: ForebayStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the tasks of a micro-batch read."""
    return [row for part in query.partitions(start, end) for batch in query.read(part) for row in batch.to_pylist()]


def offsets(found: list[dict[str, Any]], partition: int = 0) -> list[int]:
    return [row["offset"] for row in found if row["partition"] == partition]


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker with the sink ``orders`` of two partitions, five records in the first."""
    with broker.client() as client:
        client.sinks.create("orders", partitions=2)
    fill(broker, 5)
    return broker


def test_a_stream_begins_at_the_earliest_and_gets_each_record_once(orders: TestBroker) -> None:
    query = reader(orders)
    start = query.initialOffset()
    first = latest(query, start)
    fill(orders, 2, partition=1)
    second = latest(query, first)

    assert offsets(rows(query, start, first)) == [0, 1, 2, 3, 4]
    assert offsets(rows(query, first, second), 1) == [0, 1]
    assert latest(query, second) == second
    assert query.partitions(second, second) == []


def test_latest_is_the_same_both_times_that_spark_asks(orders: TestBroker) -> None:
    query = reader(orders, startingOffsets="latest")
    first = query.initialOffset()
    fill(orders, 3)

    assert query.initialOffset() == first
    assert offsets(rows(query, first, latest(query, first))) == [5, 6, 7]


def test_a_first_batch_that_is_run_again_has_the_rows_that_it_had(orders: TestBroker) -> None:
    """`latest` is asked for again after the restart, and has moved."""
    before = reader(orders, startingOffsets="latest")
    start = before.initialOffset()
    fill(orders, 3)
    end = latest(before, start)
    fill(orders, 2)

    again = reader(orders, startingOffsets="latest")

    assert offsets(rows(again, again.initialOffset(), end)) == [5, 6, 7]


def test_a_first_batch_without_rows_pins_latest_too(orders: TestBroker) -> None:
    before = reader(orders, startingOffsets="latest")
    end = latest(before, before.initialOffset())
    fill(orders, 3)

    again = reader(orders, startingOffsets="latest")

    assert rows(again, again.initialOffset(), end) == []
    assert offsets(rows(again, end, latest(again, end))) == [5, 6, 7]


def test_a_stream_begins_at_offsets_by_partition_or_at_a_time(orders: TestBroker) -> None:
    fill(orders, 4, partition=1)
    with orders.client() as client:
        accepted = next(iter(client.replay("orders", partition=1))).accepted_at  # type: ignore[union-attr]

    assert places(reader(orders, startingOffsets='{"0": 3, "1": "latest"}').initialOffset()) == {0: 3, 1: 4}
    assert places(reader(orders, startingTimestamp="2001-01-01").initialOffset()) == {0: 0, 1: 0}
    assert places(reader(orders, startingTimestamp=accepted.isoformat()).initialOffset())[1] == 0
    assert places(reader(orders, startingTimestamp="2100-01-01").initialOffset()) == {0: 5, 1: 4}


def test_the_limit_comes_from_the_options_and_bounds_a_batch(orders: TestBroker) -> None:
    by_records, by_bytes = reader(orders, maxRecordsPerTrigger="2"), reader(orders, maxBytesPerTrigger="1")
    start = by_records.initialOffset()

    assert by_records.getDefaultReadLimit() == ReadMaxRows(2)
    assert by_bytes.getDefaultReadLimit() == ReadMaxBytes(1)
    assert reader(orders).getDefaultReadLimit() == ALL
    assert places(latest(by_records, start, ReadMaxRows(2))) == {0: 2, 1: 0}
    assert places(latest(by_bytes, start, ReadMaxBytes(1))) == {0: 1, 1: 0}
    assert places(latest(by_records, start, ALL)) == {0: 5, 1: 0}


def test_a_query_of_what_is_available_now_ends_where_the_sink_ended(orders: TestBroker) -> None:
    query = reader(orders)
    start = query.initialOffset()
    query.prepareForTriggerAvailableNow()
    fill(orders, 3)
    with orders.client() as client:
        client.sinks.update("orders", partitions=3)
    fill(orders, 3, partition=2)

    end = latest(query, start)

    assert places(end)[0] == 5
    assert latest(query, end) == end
    assert rows(query, start, end) == rows(query, start, latest(query, start))


def test_partitions_that_were_added_are_read_from_their_first_record(orders: TestBroker) -> None:
    query = reader(orders)
    start = query.initialOffset()
    first = latest(query, start)
    with orders.client() as client:
        client.sinks.update("orders", partitions=3)
    fill(orders, 4, partition=2)

    second = latest(query, first)

    assert offsets(rows(query, first, second), 2) == [0, 1, 2, 3]


def test_a_batch_that_ends_before_it_begins_is_an_error_and_never_empty(orders: TestBroker) -> None:
    query = reader(orders)
    start = query.initialOffset()
    end = latest(query, start)

    with pytest.raises(ForebaySparkError, match="ends at offset 0 of partition 0"):
        query.partitions({**end, "partitions": {"0": 5, "1": 0}}, {**end, "partitions": {"0": 0, "1": 0}})


def test_a_query_that_begins_again_without_read_limits_reads_no_sink_that_was_recreated(orders: TestBroker) -> None:
    query = reader(orders)
    end = latest(query, query.initialOffset())
    recreate(orders, 8)
    again = reader(orders)
    later = through_the_log(again.latestOffset())  # as Spark 4.0 and 4.1 call it

    with pytest.raises(ForebaySparkError, match="deleted and recreated"):
        again.partitions(end, later)


def saved_offset(broker: TestBroker) -> int:
    """Return the offset of the first partition in the broker's store of positions."""
    with broker.client() as client:
        [found] = [one for one in client.positions.list("spark/") if one.key.partition == 0]
    return SavedPosition.decode(str(found.key), found.document).offset


SAVED = {"checkpoint_store": "broker:", "checkpoint_name": "billing"}


@pytest.mark.parametrize("was_saved", [False, True])
def test_records_after_a_first_batch_that_failed_are_read_if_no_position_is_saved(
    orders: TestBroker, was_saved: bool
) -> None:
    """The option was added after the failure, or the position was deleted; `latest` has moved."""
    before = reader(orders, startingOffsets="latest", **(SAVED if was_saved else {}))
    start = before.initialOffset()
    fill(orders, 2)
    end = latest(before, start)
    before.stop()
    with orders.client() as client:
        for found in list(client.positions.list("spark/")):
            client.positions.delete(found.key)
    fill(orders, 10)

    again = reader(orders, startingOffsets="latest", **SAVED)
    assert offsets(rows(again, again.initialOffset(), end)) == [5, 6]
    assert saved_offset(orders) == 5
    fill(orders, 3)
    after = latest(again, end)
    assert offsets(rows(again, end, after)) == list(range(7, 20))
    assert latest(again, after) == after
    again.stop()

    assert saved_offset(orders) == 20


def test_records_after_a_first_batch_without_rows_are_read_if_no_position_is_saved(orders: TestBroker) -> None:
    before = reader(orders, startingOffsets="latest")
    end = latest(before, before.initialOffset())
    fill(orders, 3)

    again = reader(orders, startingOffsets="latest", **SAVED)
    assert rows(again, again.initialOffset(), end) == []
    assert offsets(rows(again, end, latest(again, end))) == [5, 6, 7]
    again.stop()


def test_a_first_batch_that_is_run_again_has_its_rows_whatever_is_saved(orders: TestBroker) -> None:
    query = reader(orders, **SAVED)
    start = query.initialOffset()
    first = latest(query, start, ReadMaxRows(2))
    latest(query, latest(query, first))
    query.stop()
    assert saved_offset(orders) == 5
    fill(orders, 1)

    again = reader(orders, **SAVED)

    assert offsets(rows(again, again.initialOffset(), first)) == [0, 1]
    assert offsets(rows(again, first, latest(again, first))) == [5]
    again.stop()


def test_a_saved_position_is_used_although_the_starting_offsets_are_gone(orders: TestBroker) -> None:
    with orders.client() as client:
        client.sinks.delete("orders", force=True)
        client.sinks.create("orders", partitions=2, buffer_page_size=1)
    for _ in range(6):
        fill(orders, 1)
    options = {**SAVED, "startingOffsets": '{"0": 2}'}
    query = reader(orders, **options)
    latest(query, latest(query, query.initialOffset(), ReadMaxRows(3)), ReadMaxRows(1))
    query.stop()
    with orders.client() as client:
        client.subscriptions.settle("orders", offsets={0: 4})

    with pytest.raises(ForebaySparkError, match="asks for offset 2 in partition 0"):
        reader(orders, startingOffsets='{"0": 2}').initialOffset()
    again = reader(orders, **options)
    start = again.initialOffset()
    assert places(start) == {0: 5, 1: 0}
    assert offsets(rows(again, start, latest(again, start))) == [5]
    again.stop()


def test_a_query_that_begins_again_without_read_limits_saves_its_positions(orders: TestBroker) -> None:
    query = reader(orders, **SAVED)
    query.initialOffset()
    first = through_the_log(query.latestOffset())  # as Spark 4.0 and 4.1 call it
    query.commit(first)
    query.stop()
    assert saved_offset(orders) == 5
    fill(orders, 3)

    again = reader(orders, **SAVED)
    second = through_the_log(again.latestOffset())
    assert offsets(rows(again, first, second)) == [5, 6, 7]
    again.commit(second)
    again.stop()

    assert saved_offset(orders) == 8


def test_a_query_without_read_limits_skips_what_is_saved_beyond_its_checkpoint(orders: TestBroker) -> None:
    query = reader(orders, **SAVED)
    old = through_the_log(query.initialOffset())
    query.commit(through_the_log(query.latestOffset()))
    query.stop()
    fill(orders, 3)

    again = reader(orders, **SAVED)
    end = through_the_log(again.latestOffset())

    start = {**old, "initial": False}
    assert offsets(rows(again, start, end)) == [5, 6, 7]
    assert offsets(rows(again, start, end)) == [5, 6, 7]
    again.stop()

    again = reader(orders, **SAVED)  # Spark runs the batch again
    assert offsets(rows(again, start, end)) == [5, 6, 7]
    fill(orders, 1)
    after = through_the_log(again.latestOffset())
    assert offsets(rows(again, end, after)) == [8]
    again.stop()


def test_a_batch_without_read_limits_that_is_run_again_takes_its_positions_over(orders: TestBroker) -> None:
    query = reader(orders, **SAVED)
    start = through_the_log(query.initialOffset())
    end = through_the_log(query.latestOffset())
    query.stop()

    again = reader(orders, **SAVED)
    assert offsets(rows(again, {**start, "initial": False}, end)) == [0, 1, 2, 3, 4]
    fill(orders, 2)
    after = through_the_log(again.latestOffset())
    assert offsets(rows(again, end, after)) == [5, 6]
    again.commit(after)
    again.stop()

    assert saved_offset(orders) == 7


def test_a_sink_that_was_recreated_is_not_read_on_with_the_offsets_of_the_old_one(orders: TestBroker) -> None:
    query = reader(orders)
    end = latest(query, query.initialOffset())
    recreate(orders, 9)

    again = reader(orders)

    with pytest.raises(ForebaySparkError, match="deleted and recreated"):
        again.latestOffset(end, ALL)
    with pytest.raises(ForebaySparkError, match="deleted and recreated"):
        again.partitions(end, end)


def test_offsets_beyond_the_end_of_the_sink_are_an_error(orders: TestBroker) -> None:
    query = reader(orders)
    ahead = {**query.initialOffset(), "partitions": {"0": 99}}

    with pytest.raises(ForebaySparkError, match="is at offset 99 of partition 0"):
        query.latestOffset(ahead, ALL)


def test_the_end_of_the_sink_is_reported_as_it_was_seen_last(orders: TestBroker) -> None:
    query = reader(orders)
    assert query.reportLatestOffset() is None

    latest(query, query.initialOffset(), ReadMaxRows(1))

    reported = query.reportLatestOffset()
    assert reported is not None
    assert places(reported) == {0: 5, 1: 0}


def test_a_micro_batch_is_cut_into_splits(orders: TestBroker) -> None:
    query = reader(orders, max_records_per_split="2")
    start = query.initialOffset()

    assert len(query.partitions(start, latest(query, start))) == 3


def test_a_broker_that_is_unreachable_is_named(orders: TestBroker) -> None:
    query = ForebayDataSource({"endpoint": "127.0.0.1:1", "sink": "orders", "connect_timeout_s": "0.3"})

    with pytest.raises(ForebaySparkError, match=r"127\.0\.0\.1:1"):
        query.streamReader(query.schema()).initialOffset()


# -- as a named subscription


def account(broker: TestBroker, name: str = "spark") -> tuple[int, int, int]:
    """Return what a subscription has acked and skipped, and what is pending. Its accounts balance."""
    with broker.client() as client:
        stats = client.sinks.stats("orders")
    assert stats.identity_ok
    [found] = [one for one in stats.subscriptions if one.name == name]
    return (
        sum(one.acked for one in found.partitions),
        sum(one.skipped for one in found.partitions),
        sum(one.pending for one in found.partitions),
    )


def test_a_subscription_is_made_where_the_query_begins(orders: TestBroker) -> None:
    query = reader(orders, subscription="spark", startingOffsets='{"0": 2}')

    assert places(query.initialOffset()) == {0: 2, 1: 0}
    assert account(orders) == (0, 0, 3)


def test_latest_is_pinned_in_the_broker_before_anything_is_planned(orders: TestBroker) -> None:
    """Also when the query dies before its first batch is in the checkpoint."""
    first = reader(orders, subscription="spark", startingOffsets="latest").initialOffset()
    fill(orders, 3)

    again = reader(orders, subscription="spark", startingOffsets="latest")

    assert again.initialOffset() == first
    assert offsets(rows(again, first, latest(again, first))) == [5, 6, 7]


def test_a_subscription_is_made_at_the_saved_position(orders: TestBroker) -> None:
    query = reader(orders, **SAVED)
    latest(query, latest(query, query.initialOffset(), ReadMaxRows(2)), ReadMaxRows(1))
    query.stop()
    saved = saved_offset(orders)

    again = reader(orders, subscription="spark", startingOffsets="latest", **SAVED)

    assert places(again.initialOffset())[0] == saved
    assert account(orders) == (0, 0, 5 - saved)
    again.stop()


def test_a_subscription_that_exists_continues_at_its_position(orders: TestBroker) -> None:
    with orders.client() as client:
        client.ack("orders", client.pull("orders", max_records=2))

    query = reader(orders, subscription="default", startingOffsets="earliest")

    assert places(query.initialOffset()) == {0: 2, 1: 0}


def test_nothing_is_settled_before_the_commit_that_covers_it(orders: TestBroker) -> None:
    """Q4."""
    query = reader(orders, subscription="spark")
    start = query.initialOffset()
    first = latest(query, start, ReadMaxRows(2))
    rows(query, start, first)
    before = account(orders)
    second = latest(query, first, ReadMaxRows(2))  # Spark has committed the first batch
    rows(query, first, second)
    between = account(orders)

    query.commit(second)

    assert [before, between, account(orders)] == [(0, 0, 5), (2, 0, 3), (4, 0, 1)]


def test_the_last_batch_is_settled_when_spark_asks_what_comes_next(orders: TestBroker) -> None:
    query = reader(orders, subscription="spark")
    end = latest(query, query.initialOffset())

    assert latest(query, end) == end
    assert account(orders) == (5, 0, 0)


def test_a_batch_that_is_committed_again_is_counted_once(orders: TestBroker) -> None:
    query = reader(orders, subscription="spark")
    first = latest(query, query.initialOffset(), ReadMaxRows(2))
    second = latest(query, first)
    query.commit(second)

    again = reader(orders, subscription="spark")
    again.commit(second)
    again.commit(first)

    assert account(orders) == (5, 0, 0)


def test_records_that_a_query_has_not_committed_are_kept_for_it(orders: TestBroker) -> None:
    query = reader(orders, subscription="spark")
    start = query.initialOffset()
    end = latest(query, start)
    with orders.client() as client:
        client.ack("orders", client.pull("orders", max_records=100))

    assert offsets(rows(reader(orders, subscription="spark"), start, end)) == [0, 1, 2, 3, 4]


def test_a_query_that_gets_a_subscription_later_has_one_from_where_it_stands(orders: TestBroker) -> None:
    free = reader(orders)
    end = latest(free, free.initialOffset(), ReadMaxRows(2))

    latest(reader(orders, subscription="spark"), end)

    assert account(orders) == (0, 0, 3)


def test_two_consumers_that_settle_the_same_subscription_are_reported(orders: TestBroker) -> None:
    query = reader(orders, subscription="default")
    end = latest(query, query.initialOffset(), ReadMaxRows(2))
    with orders.client() as client:
        client.pull("orders", max_records=1)

    with pytest.raises(ForebaySparkError, match="'pull' owns partition 0") as error:
        latest(query, end)

    assert "subscription" in error.value.remedy


def test_a_commit_does_not_fail_because_the_broker_is_unreachable() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        fill(broker, 5)
        query = reader(broker, subscription="spark", connect_timeout_s="0.3")
        end = latest(query, query.initialOffset())

    query.commit(end)


def test_dead_letters_are_a_sink_that_can_be_read(orders: TestBroker) -> None:
    with orders.client() as client, client.subscriber("orders") as subscriber:
        next(subscriber).dead_letter("HTTP 422", wait=True)
    query = reader(orders, sink="orders.dlq")
    start = query.initialOffset()

    found = rows(query, start, latest(query, start))

    assert [row["value"] for row in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert "HTTP 422" in str(found[0]["headers"])
