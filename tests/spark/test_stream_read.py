"""A sink is a stream: a read continues from the checkpoint, and no row is skipped or read as another."""

from __future__ import annotations

import datetime as dt
import json
from itertools import chain
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from forebay.client import Record
from forebay.client.testing import TestBroker


class Reading:
    """A query that reads the sink ``orders`` and remembers the batches that it was given."""

    def __init__(self, spark: SparkSession, broker: TestBroker, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._folder = folder
        self.batches: list[list[tuple[int, int]]] = []
        """Partition and offset of every row, by batch, sorted."""
        self.fails = False
        self.fails_in: int | None = None
        """The batch that fails."""

    def start(self, *, follows: bool = False, **options: str) -> StreamingQuery:
        """Start a query; unless it ``follows`` it ends where the sink ends now."""
        rows = (
            self._spark.readStream.format("forebay")
            .options(endpoint=self._broker.endpoint, sink="orders", **options)
            .load()
        )
        query = rows.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder / "checkpoint"))
        return (query if follows else query.trigger(availableNow=True)).start()

    def run(self, **options: str) -> list[list[tuple[int, int]]]:
        """Run a query to its end; return its batches."""
        before = len(self.batches)
        self.start(follows=False, **options).awaitTermination()
        return self.batches[before:]

    def wait_for_a_batch(self, query: StreamingQuery) -> None:
        """Return when a batch has been taken, the last one that was planned so far."""
        query.processAllAvailable()
        assert self.batches

    def _take(self, rows: DataFrame, number: int) -> None:
        folder = self._folder / f"batch-{number}"
        rows.select("partition", "offset").write.mode("overwrite").json(str(folder))
        if self.fails or number == self.fails_in:
            raise RuntimeError("the target is away")
        lines = [line for part in folder.glob("*.json") for line in part.read_text().splitlines()]
        self.batches.append(sorted((row["partition"], row["offset"]) for row in map(json.loads, lines)))


@pytest.fixture
def reading(spark: SparkSession, broker: TestBroker, tmp_path: Path) -> Reading:
    """Return what reads the sink."""
    return Reading(spark, broker, tmp_path)


def fill(broker: TestBroker, records: int, *, partition: int = 0) -> None:
    """Publish records to a partition."""
    with broker.client() as client:
        client.publish("orders", [Record(b"%d" % n) for n in range(records)], partition=partition)


def offsets(first: int, end: int, *, partition: int = 0) -> list[tuple[int, int]]:
    """Return the places of records."""
    return [(partition, offset) for offset in range(first, end)]


def account(broker: TestBroker) -> dict[str, int]:
    """Return the account of the subscription ``spark``, which balances."""
    with broker.client() as client:
        stats = client.sinks.stats("orders")
    assert stats.identity_ok
    [found] = [one for one in stats.subscriptions if one.name == "spark"]
    return {name: sum(getattr(one, name) for one in found.partitions) for name in ("acked", "skipped", "pending")}


def test_a_stream_reads_what_there_is_and_continues_from_its_checkpoint(reading: Reading, broker: TestBroker) -> None:
    fill(broker, 5)
    fill(broker, 3, partition=2)
    first = reading.run()
    fill(broker, 4)

    again = reading.run()

    assert first == [offsets(0, 5) + offsets(0, 3, partition=2)]
    assert again == [offsets(5, 9)]
    assert reading.run() == []


def test_reading_as_a_stream_settles_nothing(reading: Reading, broker: TestBroker) -> None:
    fill(broker, 5)

    reading.run()

    with broker.client() as client:
        assert client.sinks.stats("orders").pending() == 5


def test_a_micro_batch_holds_no_more_than_the_trigger_allows_and_every_partition_its_part(
    reading: Reading, broker: TestBroker
) -> None:
    fill(broker, 10)
    fill(broker, 2, partition=1)

    batches = reading.run(maxRecordsPerTrigger="4")

    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert batches[0] == offsets(0, 2) + offsets(0, 2, partition=1)
    assert sorted(chain(*batches)) == offsets(0, 10) + offsets(0, 2, partition=1)


def test_a_first_batch_that_failed_has_its_rows_again_though_latest_has_moved(
    reading: Reading, broker: TestBroker
) -> None:
    fill(broker, 5)
    query = reading.start(follows=True, startingOffsets="latest")
    reading.wait_for_a_batch(query)
    reading.fails = True
    fill(broker, 3)
    with pytest.raises(StreamingQueryException, match="the target is away"):
        query.awaitTermination()
    fill(broker, 2)
    reading.fails = False

    again = reading.run(startingOffsets="latest")

    assert again == [offsets(5, 8), offsets(8, 10)]


def test_the_very_first_batch_may_fail_and_begins_where_latest_was(reading: Reading, broker: TestBroker) -> None:
    fill(broker, 5)
    reading.fails = True
    with pytest.raises(StreamingQueryException, match="the target is away"):
        reading.run(startingOffsets="latest")
    fill(broker, 3)
    reading.fails = False

    assert reading.run(startingOffsets="latest") == [[], offsets(5, 8)]


def test_a_subscription_is_drained_and_settled_to_its_end(reading: Reading, broker: TestBroker) -> None:
    fill(broker, 5)

    batches = reading.run(subscription="spark", maxRecordsPerTrigger="2")

    assert batches == [offsets(0, 2), offsets(2, 4), offsets(4, 5)]
    assert account(broker) == {"acked": 5, "skipped": 0, "pending": 0}


def test_a_stream_of_a_month_settles_what_it_has_left_out_too(reading: Reading, broker: TestBroker) -> None:
    with broker.client() as client:
        for month in (1, 2, None, 1, 3):
            time = None if month is None else dt.datetime(2026, month, 1, tzinfo=dt.UTC)
            client.publish("orders", [Record(b"x", event_time=time)] * 2, partition=0)
    january = {"startingTimestamp": "2026-01-01", "endingTimestamp": "2026-02-01", "timestamps": "event_time"}

    batches = reading.run(subscription="spark", maxRecordsPerTrigger="5", **january)

    assert batches == [offsets(0, 2), offsets(6, 8)]
    assert account(broker) == {"acked": 10, "skipped": 0, "pending": 0}


def test_as_a_subscription_no_row_is_skipped_by_a_first_batch_that_failed(reading: Reading, broker: TestBroker) -> None:
    """And Q4: what was read in vain is still there."""
    fill(broker, 5)
    with broker.client() as client:
        client.subscriptions.create("orders", "spark", start="latest")
    fill(broker, 3)
    reading.fails = True
    with pytest.raises(StreamingQueryException, match="the target is away"):
        reading.run(subscription="spark", startingOffsets="latest")
    failed = account(broker)
    fill(broker, 2)
    reading.fails = False

    batches = reading.run(subscription="spark", startingOffsets="latest")

    assert failed == {"acked": 0, "skipped": 0, "pending": 3}
    assert batches == [offsets(5, 8), offsets(8, 10)]
    assert account(broker) == {"acked": 5, "skipped": 0, "pending": 0}


def test_a_query_that_failed_half_way_reads_that_batch_again_and_settles_what_it_has_committed(
    reading: Reading, broker: TestBroker
) -> None:
    fill(broker, 5)
    reading.fails_in = 1
    with pytest.raises(StreamingQueryException, match="the target is away"):
        reading.run(subscription="spark", maxRecordsPerTrigger="2")
    failed = account(broker)
    reading.fails_in = None

    again = reading.run(subscription="spark")

    assert failed == {"acked": 2, "skipped": 0, "pending": 3}
    assert again == [offsets(2, 4), offsets(4, 5)]
    assert account(broker) == {"acked": 5, "skipped": 0, "pending": 0}


def test_a_stream_takes_in_partitions_that_were_added_and_says_what_is_gone(
    reading: Reading, broker: TestBroker
) -> None:
    fill(broker, 3)
    reading.run()
    with broker.client() as client:
        fill(broker, 2)
        client.sinks.purge("orders", partition=0)
        client.sinks.update("orders", partitions=4)
        fill(broker, 1)
        fill(broker, 2, partition=3)

    with pytest.raises(StreamingQueryException, match=r"Offsets 3 to 4 of partition 0 .* are gone \(PURGED\)"):
        reading.run()

    assert reading.run(failOnDataLoss="false") == [offsets(5, 6) + offsets(0, 2, partition=3)]
