"""Writers of the rows of Spark tasks to a sink, exactly once or at least once.

A task has one publisher and ends when every page has its receipt. With exactly once, the pages of an attempt are staged
under its token. They become visible atomically when the driver commits the tokens of the attempts that Spark accepted.
With at least once, pages are visible immediately, and the rows of a failed attempt remain.

A ``write`` that returns does not prove that the attempt succeeded, because Spark ends the input of a killed attempt
early and without an error. The client is created inside the task, because gRPC objects cannot be pickled.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from forebay.client import EpochCheck, Receipt, Stage, errors
from forebay.spark import telemetry
from forebay.spark.connection.broker import SinkFacts, connect
from forebay.spark.options.write import WriteOptions
from forebay.spark.remedies import explained
from forebay.spark.versions import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from forebay.spark.write import transaction
from forebay.spark.write.arrow_pager import ArrowPager
from forebay.spark.write.content import CountedBatches
from forebay.spark.write.epochs import StagedAttempt, WriteRun, stage_of
from forebay.spark.write.pager import CompletePage, Pager
from forebay.spark.write.record_schema import RowPlan
from forebay.spark.write.schema_registration import RowSchema
from forebay.spark.write.succession import QUERIES
from forebay.spark.write.valid_rows import ValidRows


@dataclass(frozen=True, slots=True)
class WriteJob:
    """Parameters of a write, pickled for its tasks."""

    options: WriteOptions
    plan: RowPlan
    facts: SinkFacts
    run: WriteRun | None = None
    """Run of an exactly-once write; None writes at least once."""
    rows: RowSchema | None = None
    """Schema of the rows; None if they are written as records."""


@dataclass(frozen=True, slots=True)
class DeferredJob:
    """Job of a micro-batch that begins later, because the broker of a known sink is unavailable.

    Commit and abort need only its options.
    """

    options: WriteOptions
    begin: Callable[[], WriteJob]
    """Begin the write, and wait for the broker as long as a task does. Raises `ForebaySparkError`."""


@dataclass(frozen=True)
class WrittenTask(WriterCommitMessage):
    """Result of one task."""

    records: int
    """Number of rows."""

    pages: int
    """Number of pages."""

    duplicates: int
    """Number of pages that were resent after a lost response and detected as duplicates."""

    staged: StagedAttempt | None = None
    """Stage that awaits the commit; None for at least once."""


class ForebayWriter(DataSourceArrowWriter):
    """Writer of a batch."""

    def __init__(self, job: WriteJob) -> None:
        """Write ``job``, which was checked against the broker."""
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage one task's rows durably. Raises `ForebaySparkError`."""
        return run_task(self.job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the staged rows.

        Raises `ForebaySparkError`; then none of them is visible, or all of them if the outcome is unknown.
        """
        commit_job(self.job.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard the staged rows. Also close the epoch of an independent batch, so that late attempts fail."""
        run = self.job.run
        if run is not None and run.batch is not None:
            transaction.close(self.job.options.target, run)
        else:
            transaction.abort(self.job.options.target, staged_by(messages))


class ForebayStreamWriter(DataSourceStreamArrowWriter):
    """Writer of micro-batches. Spark creates one for the tasks, and another for commit or abort.

    Only the one for the tasks is pickled. A deferred job begins at that point, so that an abort never waits for the
    broker.
    """

    def __init__(self, job: WriteJob | DeferredJob) -> None:
        """Write ``job``, which was checked against the broker; a deferred one is checked when it begins."""
        self._job = job

    @property
    def job(self) -> WriteJob:
        """The job; a deferred one begins now. Raises `ForebaySparkError`."""
        if isinstance(self._job, DeferredJob):
            self._job = self._job.begin()
        return self._job

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with a begun job: all tasks share its run. Raises `ForebaySparkError`."""
        return {**self.__dict__, "_job": self.job}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage one task's rows durably. Raises `ForebaySparkError`."""
        return run_task(self.job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the micro-batch. Raises `ForebaySparkError`; Spark repeats the batch after a restart."""
        commit_job(self._job.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Discard the staged rows of the tasks that ended; Spark calls this also after a failed commit."""
        transaction.abort(self._job.options.target, staged_by(messages))


def commit_job(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit the stages in the messages of a write; an at-least-once write has none."""
    staged = staged_by(messages)
    if staged and staged[0].stage.takeover and not options.takeover:
        _stage(options, staged[0].stage)  # another query may have replaced this one since the task checked
    transaction.commit([(options.target, staged)], patience_s=options.delivery_timeout_s)


def staged_by(messages: Sequence[WriterCommitMessage | None]) -> list[StagedAttempt]:
    """Return the stages of the tasks that ended. The others have no message."""
    written = (message for message in messages if isinstance(message, WrittenTask))
    return [message.staged for message in written if message.staged is not None]


def run_task(job: WriteJob, batches: Iterator[pa.RecordBatch]) -> WrittenTask:
    """Write a task's rows, from inside the task."""
    context = TaskContext.get()
    task_partition = context.partitionId() if context is not None else 0
    local_property = _no_property if context is None else context.getLocalProperty
    stage = None if job.run is None else _stage(job.options, stage_of(job.run, job.options, local_property))
    with telemetry.task("write", job.options.target.sink) as trace, _discarded_on_failure(job, stage):
        try:
            if stage is None:
                return write_rows(job, batches, task_partition=task_partition, clock=time.monotonic)
            return _stage_rows(job, CountedBatches(batches), task_partition, stage, trace)
        except errors.ForebayError as error:
            raise explained(error, job.options.target, doing="write to") from error


def _stage(options: WriteOptions, stage: Stage) -> Stage:
    """Return the stage of an attempt, which takes over the write name if its query may.

    Raises `ForebaySparkError` if this query was itself replaced.
    """
    checkpoint = options.checkpoint
    if checkpoint is None:
        return stage
    try:
        return replace(stage, takeover=QUERIES.may_take_over(options, checkpoint, stage) or stage.takeover)
    except errors.ForebayError as error:
        raise explained(error, options.target, doing="write to") from error


def _stage_rows(job: WriteJob, batches: CountedBatches, task_partition: int, stage: Stage, trace: str) -> WrittenTask:
    """Stage a task's rows; if the epoch is already committed, only count them for a comparison."""
    try:
        written = write_rows(job, iter(batches), task_partition=task_partition, clock=time.monotonic, stage=stage)
    except errors.AlreadyCommitted:
        batches.drain()
        written = WrittenTask(0, 0, 0, StagedAttempt(stage, already_committed=True))
    assert written.staged is not None, "there is a stage"
    staged = replace(
        written.staged, content=batches.content, check=EpochCheck[job.options.epoch_check.name], trace=trace
    )
    return replace(written, staged=staged)


@contextmanager
def _discarded_on_failure(job: WriteJob, stage: Stage | None) -> Iterator[None]:
    """Discard the staged pages of a failed attempt, because the next attempt needs the space."""
    ended = False
    try:
        yield
        ended = True
    finally:
        if not ended and stage is not None:
            transaction.abort(job.options.target, [StagedAttempt(stage)])


def _no_property(name: str) -> str | None:
    return None


def write_rows(
    job: WriteJob,
    batches: Iterator[pa.RecordBatch],
    *,
    task_partition: int,
    clock: Callable[[], float],
    stage: Stage | None = None,
) -> WrittenTask:
    """Publish or stage all rows and wait for their receipts. Raises `ForebayError`."""
    options = job.options
    pager = _pager(job, task_partition)
    valid = ValidRows(job.plan, options.invalid_utf8)
    with (
        connect(options.target, patience_s=options.delivery_timeout_s) as client,
        client.publisher(
            options.target.sink,
            stage=stage,
            incarnation=job.facts.incarnation,
            window_pages=options.window_pages,
            delivery_timeout_s=options.delivery_timeout_s,
        ) as publisher,
    ):
        receipts = _Receipts()
        for batch in batches:
            for ready in pager.add(valid.checked(batch), now_s=clock()):
                receipts.expect(ready, publisher.send_page(ready.page, partition=ready.partition))
        for ready in pager.rest():
            receipts.expect(ready, publisher.send_page(ready.page, partition=ready.partition))
        publisher.flush()
        if stage is None:
            return receipts.wait(None)
        token = publisher.staged().summarized
        return receipts.wait(StagedAttempt(stage, token.parts, token.summary))


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
    return ArrowPager(
        job.rows,
        partition_by=options.partition_by,
        compression=options.arrow_compression,
        dictionary=options.arrow_dictionary,
        case_sensitive=options.case_sensitive,
        **bounds,
    )


class _Receipts:
    """Pending receipts of a task. Raises the failure of a page as soon as it is known."""

    def __init__(self) -> None:
        self._expected: deque[Future[Receipt]] = deque()
        self._records = 0
        self._pages = 0
        self._duplicates = 0

    def expect(self, ready: CompletePage, future: Future[Receipt]) -> None:
        """Record a sent page, and process the receipts that have arrived."""
        self._expected.append(future)
        self._records += ready.page.record_count
        self._pages += 1
        while self._expected and self._expected[0].done():
            self._take()

    def wait(self, staged: StagedAttempt | None) -> WrittenTask:
        """Wait for all receipts and return the result."""
        while self._expected:
            self._take()
        return WrittenTask(self._records, self._pages, self._duplicates, staged)

    def _take(self) -> None:
        self._duplicates += self._expected.popleft().result().duplicate
