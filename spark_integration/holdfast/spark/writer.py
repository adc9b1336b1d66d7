"""Writes the rows of Spark's tasks to a sink, at least once.

A task has one publisher and ends when every page has its receipt, so a task that Spark counts as done has its rows on
the broker's disk. A task that fails or is killed may have written a part already; its next attempt writes all
again. Nothing of gRPC is part of the objects that Spark pickles: the client is made inside the task.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.client import Receipt, errors
from holdfast.spark import telemetry
from holdfast.spark.arrow_paging import ArrowPager
from holdfast.spark.broker import SinkFacts, connect
from holdfast.spark.options import WriteOptions
from holdfast.spark.paging import Pager, Ready
from holdfast.spark.registering import RowSchema
from holdfast.spark.remedies import explained
from holdfast.spark.schema import RowPlan


@dataclass(frozen=True, slots=True)
class WriteJob:
    """All that a task needs to know. Is pickled."""

    options: WriteOptions
    plan: RowPlan
    facts: SinkFacts
    rows: RowSchema | None = None
    """The schema that rows have, where they are written with one."""


@dataclass(frozen=True)
class WrittenTask(WriterCommitMessage):
    """What one task has written."""

    records: int
    """Rows."""

    pages: int
    """Pages that carried them."""

    duplicates: int
    """Pages that the broker had already, because an answer was lost and the publisher sent them again."""


class HoldfastWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, job: WriteJob) -> None:
        """``job`` has been checked against the broker."""
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; returns when all are durable. Raises `HoldfastSparkError`."""
        return run_task(self.job, iterator)


class HoldfastStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream. Commit and abort have nothing to do: written is written."""

    def __init__(self, job: WriteJob) -> None:
        """``job`` has been checked against the broker."""
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; returns when all are durable. Raises `HoldfastSparkError`."""
        return run_task(self.job, iterator)


def run_task(job: WriteJob, batches: Iterator[pa.RecordBatch]) -> WrittenTask:
    """Write a task's rows from inside the task."""
    context = TaskContext.get()
    task_partition = context.partitionId() if context is not None else 0
    with telemetry.task("write", job.options.target.sink):
        try:
            return write_rows(job, batches, task_partition=task_partition, clock=time.monotonic)
        except errors.HoldfastError as error:
            raise explained(error, job.options.target, doing="write to") from error


def write_rows(
    job: WriteJob,
    batches: Iterator[pa.RecordBatch],
    *,
    task_partition: int,
    clock: Callable[[], float],
) -> WrittenTask:
    """Publish all rows and wait for their receipts. Raises `HoldfastError` for what the broker refuses."""
    options = job.options
    pager = _pager(job, task_partition)
    with (
        connect(options.target, patience_s=options.delivery_timeout_s) as client,
        client.publisher(
            options.target.sink,
            window_pages=options.window_pages,
            delivery_timeout_s=options.delivery_timeout_s,
        ) as publisher,
    ):
        receipts = _Receipts()
        for batch in batches:
            for ready in pager.add(batch, now_s=clock()):
                receipts.expect(ready, publisher.send_page(ready.page, partition=ready.partition))
        for ready in pager.rest():
            receipts.expect(ready, publisher.send_page(ready.page, partition=ready.partition))
        publisher.flush()
        return receipts.wait()


def _pager(job: WriteJob, task_partition: int) -> Pager | ArrowPager:
    options = job.options
    bounds: dict[str, Any] = {
        "partitions": job.facts.partitions,
        "first_partition": task_partition,
        "page_bytes": min(options.page_bytes, job.facts.page_bytes_max),
        "page_records": job.facts.page_records_max,
        "linger_s": options.linger_ms / 1000,
    }
    if job.rows is None:
        return Pager(job.plan, **bounds)
    return ArrowPager(job.rows, partition_by=options.partition_by, compression=options.arrow_compression, **bounds)


class _Receipts:
    """The answers that a task waits for. Raises what a page failed with as soon as it is noticed."""

    def __init__(self) -> None:
        self._expected: deque[Future[Receipt]] = deque()
        self._records = 0
        self._pages = 0
        self._duplicates = 0

    def expect(self, ready: Ready, future: Future[Receipt]) -> None:
        """Count a page that was sent, and take the answers that have come."""
        self._expected.append(future)
        self._records += ready.page.record_count
        self._pages += 1
        while self._expected and self._expected[0].done():
            self._take()

    def wait(self) -> WrittenTask:
        """Return when every page has its receipt."""
        while self._expected:
            self._take()
        return WrittenTask(self._records, self._pages, self._duplicates)

    def _take(self) -> None:
        self._duplicates += self._expected.popleft().result().duplicate
