"""Drill: the broker's disk is lost and restored from a backup under Spark queries that write and read."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage, RestoreReport, restore
from forebay.broker.storage.backup.targets import open_target
from forebay.client import Client, Gap, Record
from tests.support.spark.streaming import Input, stream


@contextmanager
def serving(folder: Path) -> Iterator[BrokerServer]:
    given = load(
        data_dir=folder / "data",
        listen="127.0.0.1:0",
        backup_target=str(folder / "target"),
        disk_ballast_bytes=0,
        disk_reserve_bytes=0,
    )
    with BrokerServer.on_disk(given) as server:
        yield server


def write(rows: Input, spark: SparkSession, endpoint: str, folder: Path, **options: str) -> None:
    query = stream(rows.rows(spark), endpoint, folder, **options).trigger(availableNow=True).start()
    query.awaitTermination()


def read(spark: SparkSession, endpoint: str, folder: Path, **options: str) -> list[bytes]:
    """Return all that the query has written up to now."""
    source = spark.readStream.format("forebay").options(**{"endpoint": endpoint, "sink": "orders", **options})
    out = source.load().select("value").writeStream.format("parquet").option("path", str(folder / "out"))
    out.option("checkpointLocation", str(folder / "read")).trigger(availableNow=True).start().awaitTermination()
    return sorted(bytes(row.value) for row in spark.read.parquet(str(folder / "out")).collect())


def stored(endpoint: str) -> list[bytes]:
    with Client(endpoint) as client, client.replay("orders", on_gap="yield") as replay:
        return sorted(record.value for record in replay if not isinstance(record, Gap))


def restored(folder: Path) -> RestoreReport:
    shutil.rmtree(folder / "data")
    target = open_target(str(folder / "target"))
    at_us = time.time_ns() // 1_000
    identity = secrets.token_hex(16)
    return restore(target, find(target), folder / "data", on_damage=OnDamage.STOP, store_id=identity, at_us=at_us)


def test_queries_continue_after_the_loss_of_a_disk_and_lost_micro_batches_are_refused_until_an_operator_decides(
    spark: SparkSession, tmp_path: Path, input_files: Input
) -> None:
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        for count in (20, 30):
            input_files.add(count)
            write(input_files, spark, server.endpoint, tmp_path)
        assert read(spark, server.endpoint, tmp_path, maxRecordsPerTrigger="20") == sorted(input_files.written)
        list(client.backups.create())
        kept = list(input_files.written)
        input_files.add(7)
        write(input_files, spark, server.endpoint, tmp_path)

    report = restored(tmp_path)

    [sink] = report.sinks
    assert [part.records for part in sink.partitions] == [len(kept)]
    assert [(one.write_name, one.epoch) for one in sink.producers] == [("orders", 1)]
    with serving(tmp_path) as server:
        input_files.add(3)
        with pytest.raises(StreamingQueryException, match="EPOCH_AHEAD") as refused:
            write(input_files, spark, server.endpoint, tmp_path)
        assert "ends before epoch 2" in str(refused.value)
        assert stored(server.endpoint) == sorted(kept)

        write(input_files, spark, server.endpoint, tmp_path, takeover="true")
        input_files.add(2)
        write(input_files, spark, server.endpoint, tmp_path)  # needs no takeover any more
        wanted = sorted(kept + input_files.written[-5:])
        assert stored(server.endpoint) == wanted

        with pytest.raises(StreamingQueryException, match="RESTORED"):
            read(spark, server.endpoint, tmp_path, maxRecordsPerTrigger="20")
        found = read(spark, server.endpoint, tmp_path, maxRecordsPerTrigger="20", failOnDataLoss="false")
        assert found == wanted


def test_lost_micro_batches_are_written_again_from_the_checkpoint(
    spark: SparkSession, tmp_path: Path, input_files: Input
) -> None:
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        input_files.add(20)
        write(input_files, spark, server.endpoint, tmp_path)
        list(client.backups.create())
        for _ in range(2):
            input_files.add(7)
            write(input_files, spark, server.endpoint, tmp_path)
    restored(tmp_path)

    with serving(tmp_path) as server:
        input_files.add(3)
        with pytest.raises(StreamingQueryException, match="EPOCH_AHEAD"):
            write(input_files, spark, server.endpoint, tmp_path)
        for folder in ("commits", "offsets"):
            for epoch in (1, 2, 3):
                for name in (f"{epoch}", f".{epoch}.crc"):
                    (tmp_path / "checkpoint" / folder / name).unlink(missing_ok=True)
        write(input_files, spark, server.endpoint, tmp_path)

        assert stored(server.endpoint) == sorted(input_files.written)


def publish(endpoint: str, *values: bytes) -> None:
    with Client(endpoint) as client:
        client.publish("orders", [Record(value) for value in values], partition=0)


def test_a_query_that_has_read_beyond_the_backup_fails_or_continues_after_the_gap(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept, lost = [b"a%d" % number for number in range(30)], [b"b%d" % number for number in range(10)]
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        publish(server.endpoint, *kept)
        list(client.backups.create())
        publish(server.endpoint, *lost)
        assert read(spark, server.endpoint, tmp_path) == sorted([*kept, *lost])
    restored(tmp_path)

    with serving(tmp_path) as server:
        new = [b"c%d" % number for number in range(5)]
        publish(server.endpoint, *new)
        with pytest.raises(StreamingQueryException, match="RESTORED"):
            read(spark, server.endpoint, tmp_path)
        assert read(spark, server.endpoint, tmp_path, failOnDataLoss="false") == sorted([*kept, *lost, *new])


def test_a_query_that_is_behind_the_backup_reads_up_to_it_and_then_after_the_gaps_of_two_restores(
    spark: SparkSession, tmp_path: Path
) -> None:
    before, kept = [b"a%d" % number for number in range(20)], [b"b%d" % number for number in range(25)]
    limits = {"maxRecordsPerTrigger": "10"}
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        publish(server.endpoint, *before)
        read(spark, server.endpoint, tmp_path, **limits)
        publish(server.endpoint, *kept)
        list(client.backups.create())
        publish(server.endpoint, b"lost")
    restored(tmp_path)
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        publish(server.endpoint, b"between")
        list(client.backups.create())
    restored(tmp_path)

    with serving(tmp_path) as server:
        publish(server.endpoint, b"new")
        with pytest.raises(StreamingQueryException, match="RESTORED"):
            read(spark, server.endpoint, tmp_path, **limits)
        found = read(spark, server.endpoint, tmp_path, failOnDataLoss="false", **limits)
        assert found == sorted([*before, *kept, b"between", b"new"])


def test_a_query_that_lost_nothing_writes_on_by_itself(spark: SparkSession, tmp_path: Path, input_files: Input) -> None:
    with serving(tmp_path) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        input_files.add(20)
        write(input_files, spark, server.endpoint, tmp_path)
        list(client.backups.create())
    restored(tmp_path)

    with serving(tmp_path) as server:
        input_files.add(5)
        write(input_files, spark, server.endpoint, tmp_path)

        assert stored(server.endpoint) == sorted(input_files.written)
