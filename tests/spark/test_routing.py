"""Routing of a stream's rows to partitions, their order, and a full sink."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker
from tests.support.calls.eventually import stats_when
from tests.support.spark.buffered import records, values
from tests.support.spark.streaming import Input, stream

KEYS = 7
ROWS = 300


@pytest.mark.parametrize("tasks", [1, 3, 8], ids=["fewer tasks than partitions", "as many", "more"])
def test_the_order_within_a_key_is_kept_across_micro_batches(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input, tasks: int
) -> None:
    rows = (
        input_files.rows(spark)
        .selectExpr("CAST(substring(value, 5) AS LONG) AS number")
        .selectExpr(f"concat('key-', number % {KEYS}) AS k", "number")
        .repartition(tasks, "k")
    )

    for _ in range(3):
        input_files.add(ROWS)
        stream(rows, broker.endpoint, tmp_path, partition_by="k").trigger(availableNow=True).start().awaitTermination()

    found = defaultdict(list)
    for record in records(broker.endpoint):
        row = json.loads(record.value)
        found[row["k"]].append((record.partition, row["number"]))
    written = sorted(int(line[4:]) for line in input_files.written)
    assert found == {
        f"key-{key}": [(zlib.crc32(b"key-%d" % key) % 3, number) for number in written if number % KEYS == key]
        for key in range(KEYS)
    }


def test_a_full_sink_makes_a_micro_batch_wait_and_not_fail(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(100)
    with broker.client() as client:
        client.sinks.create("small", max_disk_cache=150, buffer_page_size=1)
        rows = input_files.rows(spark).coalesce(1).selectExpr("rpad(value, 200, '.') AS value")
        query = stream(rows, broker.endpoint, tmp_path, sink="small", page_bytes="1024").start()
        stats_when(client, "small", lambda stats: stats.partitions[0].next_offset == 100, timeout_s=60)
        input_files.add(100)
        stats_when(client, "small", lambda stats: 45 <= stats.staged_records <= 50, timeout_s=60)
        assert values(broker.endpoint, "small") == padded(input_files.written[:100])
        assert query.isActive

        client.ack("small", client.pull("small", max_records=100))
        query.processAllAvailable()
        query.stop()

    assert values(broker.endpoint, "small") == padded(input_files.written[100:])


def padded(lines: list[bytes]) -> list[bytes]:
    return sorted(line.ljust(200, b".") for line in lines)
