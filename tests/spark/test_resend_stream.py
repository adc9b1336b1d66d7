"""Failed records as a stream: read, acked by the commit, and not lost when a query fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from forebay.client import Client, Record
from forebay.client.testing import TestBroker


class Resending:
    """A query that reads the retry queue of the sink ``late``, and keeps the batches that it received."""

    def __init__(self, spark: SparkSession, broker: TestBroker, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._folder = folder
        self.batches: list[list[tuple[int, str, int]]] = []
        """Offset, value and attempt of every row, by batch, sorted."""
        self.fails = False

    def start(self, *, follows: bool = False, **options: str) -> StreamingQuery:
        """Start a query; unless it ``follows``, it ends with what is in the retry queue now."""
        rows = (
            self._spark.readStream.format("forebay")
            .options(endpoint=self._broker.endpoint, sink="late", mode="resend", subscription="default", **options)
            .option("metadata", "_attempt")
            .load()
        )
        query = rows.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder / "checkpoint"))
        return (query if follows else query.trigger(availableNow=True)).start()

    def run(self, **options: str) -> list[list[tuple[int, str, int]]]:
        """Run a query to its end; return its batches that have rows."""
        before = len(self.batches)
        self.start(follows=False, **options).awaitTermination()
        return [batch for batch in self.batches[before:] if batch]

    def _take(self, rows: DataFrame, number: int) -> None:
        folder = self._folder / f"batch-{number}"
        rows.selectExpr("offset", "string(value) AS value", "_attempt").write.mode("overwrite").json(str(folder))
        lines = [line for part in folder.glob("*.json") for line in part.read_text().splitlines()]
        self.batches.append(sorted((row["offset"], row["value"], row["_attempt"]) for row in map(json.loads, lines)))
        if self.fails:
            raise RuntimeError("the target is away")


@pytest.fixture
def resending(spark: SparkSession, broker: TestBroker, tmp_path: Path) -> Resending:
    """Return a query that reads the retry queue."""
    return Resending(spark, broker, tmp_path)


def fail(client: Client, *nacked: int) -> None:
    """A consumer nacks some of what there is for it, and acks the others."""
    pulled = client.pull("late", max_records=1_000)
    client.nack("late", [record for record in pulled if record.offset in nacked], delay_s=0.0)
    client.ack("late", [record for record in pulled if record.offset not in nacked])


def fill(client: Client, records: int) -> None:
    client.sinks.create("late", ordering="RELAXED", exist_ok=True)
    client.publish("late", [Record(b"%d" % number) for number in range(records)])


def account(client: Client) -> tuple[int, int]:
    """Return acked and pending records, which balance."""
    stats = client.sinks.stats("late")
    assert stats.identity_ok
    part = stats.subscriptions[0].partitions[0]
    return part.acked, part.pending


def test_exactly_what_was_nacked_is_read_with_its_attempts_and_acked_by_the_commit(
    resending: Resending, broker: TestBroker
) -> None:
    with broker.client() as client:
        fill(client, 10)
        fail(client, 2, 3, 7)
        fail(client, 7, 2)  # 3 came again and was taken

        batches = resending.run(maxRecordsPerTrigger="1")

        assert batches == [[(2, "2", 2)], [(7, "7", 2)]]
        assert account(client) == (10, 0)
        assert client.pull("late") == []
        assert resending.run() == []


def test_a_query_that_failed_before_its_commit_reads_the_same_set_again(
    resending: Resending, broker: TestBroker
) -> None:
    with broker.client() as client:
        fill(client, 10)
        fail(client, 2, 3, 7)
        resending.fails = True
        with pytest.raises(StreamingQueryException, match="the target is away"):
            resending.run()
        kept = client.pull("late")
        failed = account(client)
        resending.fails = False

        batches = resending.run()

        assert (kept, failed) == ([], (7, 3))
        assert batches == [[(2, "2", 1), (3, "3", 0), (7, "7", 1)]]  # 2 and 3 failed together, and 2 counts for both
        assert resending.batches[0] == batches[0]
        assert account(client) == (10, 0)


def test_a_query_that_follows_gets_what_fails_while_it_runs_and_may_be_stopped(
    resending: Resending, broker: TestBroker
) -> None:
    with broker.client() as client:
        fill(client, 4)
        query = resending.start(follows=True)
        try:
            fail(client, 1)
            query.processAllAvailable()
            fill(client, 4)
            fail(client, 6)
            query.processAllAvailable()
        finally:
            query.stop()

        assert [batch for batch in resending.batches if batch] == [[(1, "1", 1)], [(6, "2", 1)]]
        assert resending.run() == []
        assert account(client) == (8, 0)
