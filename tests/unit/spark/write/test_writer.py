"""A task ends when its rows are durable, and nothing of gRPC travels with the writer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from forebay.client import Record, ReplayedRecord, Stage, StagedPart, errors
from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource, ForebaySparkError
from forebay.spark.options.write import Delivery
from forebay.spark.write import jobs, transaction
from forebay.spark.write.epochs import StagedAttempt
from forebay.spark.write.writer import ForebayWriter, WrittenTask, write_rows
from tests.support.proxies.tcp import TcpProxy

ROWS = StructType([StructField("value", BinaryType())])


def writer(broker: TestBroker, partitions: int = 1, **options: str) -> ForebayWriter:
    with broker.client() as client:
        client.sinks.create("orders", partitions=partitions)
    source = ForebayDataSource({"endpoint": broker.endpoint, "sink": "orders", **options})
    return source.writer(ROWS, False)


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    number = 0
    for size in sizes:
        yield pa.record_batch({"value": pa.array([b"%d" % (number + n) for n in range(size)], pa.binary())})
        number += size


def values(broker: TestBroker, partitions: int = 1) -> list[bytes]:
    with broker.client() as client:
        return [
            record.value
            for partition in range(partitions)
            for record in client.replay("orders", partition=partition)
            if isinstance(record, ReplayedRecord)
        ]


def test_a_task_at_least_once_writes_its_rows_in_order(broker: TestBroker) -> None:
    message = writer(broker, delivery="at_least_once").write(batches(10, 0, 20_000))

    assert message == WrittenTask(records=20_010, pages=1, duplicates=0)
    assert values(broker) == [b"%d" % n for n in range(20_010)]


def test_a_task_exactly_once_stages_its_rows_and_the_commit_shows_them_in_order(broker: TestBroker) -> None:
    original = writer(broker)
    message = original.write(batches(10, 0, 20_000))

    assert isinstance(message, WrittenTask)
    assert message.staged is not None
    assert (message.records, message.staged.parts) == (20_010, (StagedPart(0, pages=1, records=20_010),))
    assert values(broker) == []

    original.commit([message])

    assert values(broker) == [b"%d" % n for n in range(20_010)]


@pytest.mark.parametrize("delivery", Delivery)
def test_a_task_without_rows_writes_nothing(broker: TestBroker, delivery: Delivery) -> None:
    original = writer(broker, delivery=delivery)
    message = original.write(iter([]))

    assert isinstance(message, WrittenTask)
    assert (message.records, message.pages) == (0, 0)
    original.commit([message])
    assert values(broker) == []


def test_rows_follow_each_other_in_the_order_of_the_tasks(broker: TestBroker) -> None:
    original = writer(broker)
    later = original.write(iter([pa.record_batch({"value": pa.array([b"later"], pa.binary())})]))
    first = original.write(iter([pa.record_batch({"value": pa.array([b"first"], pa.binary())})]))

    original.commit([first, later])

    assert values(broker) == [b"first", b"later"]


def test_tasks_begin_with_partitions_of_their_own(broker: TestBroker) -> None:
    job = writer(broker, partitions=3, delivery="at_least_once").job

    for task in (1, 2, 4):
        write_rows(job, batches(1), task_partition=task, clock=time.monotonic)

    with broker.client() as client:
        assert [one.records for one in client.sinks.stats("orders").partitions] == [0, 2, 1]


def test_the_writer_can_be_pickled_before_and_after_it_has_written(broker: TestBroker) -> None:
    original = writer(broker)
    copy = cloudpickle.loads(cloudpickle.dumps(original))

    message = copy.write(batches(3))
    again = cloudpickle.dumps(copy)

    assert cloudpickle.loads(cloudpickle.dumps(message)) == message
    assert cloudpickle.dumps(original) == again
    assert b"grpc" not in again


def test_rows_that_cannot_be_written_fail_the_task(broker: TestBroker) -> None:
    rows = [pa.record_batch({"value": pa.array([b"x", None], pa.binary())})]

    with pytest.raises(ForebaySparkError, match="null in row 1"):
        writer(broker).write(iter(rows))


def test_a_record_that_is_too_large_fails_the_task_with_advice(broker: TestBroker) -> None:
    rows = [pa.record_batch({"value": pa.array([b"x" * (9 << 20)], pa.binary())})]

    with pytest.raises(ForebaySparkError, match="RECORD_TOO_LARGE") as error:
        writer(broker).write(iter(rows))

    assert "Split such rows" in error.value.remedy
    assert isinstance(error.value.__cause__, errors.RecordTooLarge)


def test_a_sink_that_went_away_fails_the_task(broker: TestBroker) -> None:
    original = writer(broker)
    with broker.client() as client:
        client.sinks.delete("orders")

    with pytest.raises(ForebaySparkError, match="SINK_NOT_FOUND"):
        original.write(batches(1))


def test_a_full_sink_fails_the_task_when_it_stays_full(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("small", max_disk_cache=10)
    options = {"endpoint": broker.endpoint, "sink": "small", "delivery_timeout_s": "0.5"}
    original = ForebayDataSource(options).writer(ROWS, False)

    with pytest.raises(ForebaySparkError, match="DELIVERY_TIMEOUT") as error:
        original.write(batches(50))

    assert "'small'" in error.value.problem
    assert "max_disk_cache" in error.value.problem
    assert "forebay lag small" in error.value.remedy
    with broker.client() as client:
        stats = client.sinks.stats("small")
    assert (stats.records, stats.staged_records) == (0, 0)


def test_an_attempt_that_fails_releases_its_room_at_once(broker: TestBroker) -> None:
    def breaking() -> Iterator[pa.RecordBatch]:
        yield from batches(10)
        with broker.client() as client:
            next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.staged_records)
        raise RuntimeError("the input breaks")

    original = writer(broker, linger_ms="0", page_bytes="1024")
    with pytest.raises(RuntimeError, match="the input breaks"):
        original.write(chain(batches(1000), breaking()))

    with broker.client() as client:
        assert client.sinks.stats("orders").staged_records == 0


def test_a_batch_that_fails_is_over(broker: TestBroker) -> None:
    original = writer(broker)
    message = original.write(batches(3))

    original.abort([None, message])

    with broker.client() as client:
        assert client.sinks.stats("orders").staged_records == 0
    late = original.write(batches(3))
    assert isinstance(late, WrittenTask)
    assert late.staged is not None
    assert late.staged.already_committed
    assert values(broker) == []


def test_a_task_whose_epoch_is_committed_counts_all_of_its_rows(broker: TestBroker) -> None:
    original = writer(broker)
    first = original.write(batches(10, 20_000))
    original.commit([first])

    repeat = original.write(batches(20_000, 0, 10))

    assert isinstance(first, WrittenTask)
    assert isinstance(repeat, WrittenTask)
    assert first.staged is not None
    assert repeat.staged is not None
    assert (repeat.records, repeat.staged.already_committed) == (0, True)
    assert repeat.staged.content == first.staged.content
    assert repeat.staged.content is not None
    assert repeat.staged.content.records == 20_010


def test_a_sink_that_is_full_for_a_while_makes_the_task_wait(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("small", max_disk_cache=10)
        client.publish("small", [Record(b"old")] * 10)
        waiting = ForebayDataSource({"endpoint": broker.endpoint, "sink": "small"}).writer(ROWS, False)
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(waiting.write, batches(10))
            with pytest.raises(TimeoutError):
                task.result(0.5)
            taken = client.pull("small", max_records=10)
            client.ack("small", taken)
            waiting.commit([task.result(10)])

        assert client.sinks.stats("small").records == 10


def test_a_sink_in_memory_is_refused_before_a_task_starts(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("quick", buffer_mode="MEMORY")
    options = {"endpoint": broker.endpoint, "sink": "quick"}

    for make in ("writer", "streamWriter"):
        with pytest.raises(ForebaySparkError, match="STAGING_UNSUPPORTED") as error:
            getattr(ForebayDataSource(options), make)(ROWS, False)
        assert '.option("delivery", "at_least_once")' in error.value.remedy
    ForebayDataSource({**options, "delivery": "at_least_once"}).writer(ROWS, False).write(batches(3))
    with broker.client() as client:
        assert client.sinks.stats("quick").records == 3


def test_a_stream_outside_of_a_query_is_refused(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders")
    source = ForebayDataSource({"endpoint": broker.endpoint, "sink": "orders"})

    with pytest.raises(ForebaySparkError, match="no query"):
        source.streamWriter(ROWS, False).write(batches(1))


def test_a_stream_at_least_once_needs_no_query_and_no_commit(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders")
    options = {"endpoint": broker.endpoint, "sink": "orders", "delivery": "at_least_once"}
    stream = ForebayDataSource(options).streamWriter(ROWS, False)

    message = stream.write(batches(3))
    assert len(values(broker)) == 3
    stream.commit([message], 0)
    stream.abort([message, None], 0)

    assert len(values(broker)) == 3


def test_a_stream_writer_made_during_an_outage_aborts_soon_and_begins_when_the_tasks_need_it(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BEGIN_S", 0.5)
    monkeypatch.setattr(transaction, "ABORT_PATIENCE_S", 0.5)
    with broker.client() as client:
        client.sinks.create("orders")
    with TcpProxy(broker.endpoint) as proxy:
        source = ForebayDataSource({"endpoint": proxy.endpoint, "sink": "orders", "delivery_timeout_s": "30"})
        known = source.streamWriter(ROWS, False)  # an outage is survived where the sink has been seen
        assert known.job.run is not None
        proxy.refuse()
        proxy.cut()

        began = time.monotonic()
        during = source.streamWriter(ROWS, False)
        during.abort([WrittenTask(1, 1, 0, StagedAttempt(Stage("query:orders", 1, "run", known.job.run.ticket)))], 1)
        took_s = time.monotonic() - began
        proxy.release()
        later = cloudpickle.loads(cloudpickle.dumps(during))

        assert took_s < 15, "the outage was waited for"
        assert later.job.run.ticket > known.job.run.ticket
        assert later.job.run == during.job.run
