"""Task reader: reads one split of a sink, batch or stream. Settles nothing.

Missing records fail the task with the offsets and the reason. If the user accepts the loss, it is logged, and becomes a
row if column ``_gap`` is selected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from forebay.arrow import one_batch
from forebay.client import Client, Gap, StoredPage, errors
from forebay.spark import telemetry
from forebay.spark.connection.broker import connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import ReadOptions
from forebay.spark.options.write import Target
from forebay.spark.read.ranges import Missing, Span
from forebay.spark.read.rows import PageReader, PageRows, RecordAmongRows
from forebay.spark.read.schema import GAP_COLUMN
from forebay.spark.remedies import explained
from forebay.spark.versions import InputPartition

_log: Final = logging.getLogger(__name__)
BATCH_RECORDS: Final = 2_500
BATCH_BYTES: Final = 512 << 10
"""Size at which joined batches are yielded; a larger size costs a copy and does not help Spark."""
TRIMMED: Final = "TRIMMED"
"""Reason of missing records that every subscription had settled."""


class Split(InputPartition):
    """Range that one Spark task reads."""

    def __init__(self, span: Span, incarnation: str) -> None:
        """Split of ``span``, whose offsets belong to one ``incarnation`` of the sink."""
        super().__init__(span)
        self.span = span
        self.incarnation = incarnation


def read_split(options: ReadOptions, pages: PageReader, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as batches. Raises `ForebaySparkError`."""
    return in_task(options.target, lambda client: _batches(client, options, pages, split))


def in_task(target: Target, read: Callable[[Client], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task over its own connection, small ones joined. Raises `ForebaySparkError`."""
    with telemetry.task("read", target.sink):
        try:
            with connect(target, patience_s=target.connect_timeout_s) as client:
                yield from _gathered(read(client))
        except errors.ForebayError as error:
            raise explained(error, target, doing="read from") from error


def _batches(client: Client, options: ReadOptions, pages: PageReader, split: Split) -> Iterator[pa.RecordBatch]:
    for found in joined(found_in(client, options.target.sink, split.span, split.incarnation)):
        if isinstance(found, StoredPage):
            rows = page_rows(options, pages, found)
            if rows.batch.num_rows:
                yield rows.batch
            for part in rows.unreadable:
                yield from gone(options, pages, part)
            continue
        yield from gone(options, pages, found)


def page_rows(options: ReadOptions, pages: PageReader, page: StoredPage) -> PageRows:
    """Return the rows of a page; without undecodable ones if the loss is accepted.

    Raises `ForebaySparkError` otherwise, and the errors of `PageReader.batch`.
    """
    try:
        batch = pages.batch(page)
    except RecordAmongRows:
        if options.fail_on_data_loss:
            raise
    except errors.InvalidPage as broken:
        if options.fail_on_data_loss:
            raise _unreadable(page, broken, options.target.sink) from broken
    except errors.SchemaNotFound:
        if options.fail_on_data_loss:
            raise
    else:
        return PageRows(batch)
    return pages.readable(page)


def gone(options: ReadOptions, pages: PageReader, missing: Missing) -> Iterator[pa.RecordBatch]:
    """Raise for missing records, or log them and yield their row if ``_gap`` is selected."""
    if options.fail_on_data_loss:
        raise _lost(missing, options.target.sink)
    _log.warning(
        "records are gone sink=%s partition=%d first_offset=%d last_offset=%d reason=%s",
        *(options.target.sink, missing.partition, missing.first_offset, missing.last_offset, missing.reason),
    )
    if GAP_COLUMN in pages.schema.names:
        yield pages.missing(missing)


def found_in(client: Client, sink: str, span: Span, incarnation: str) -> Iterator[StoredPage | Missing]:
    """Yield the pages and missing ranges of a span. Raises `SinkReplaced` for another incarnation."""
    start = span.start
    while start < span.end:
        try:
            with client.replay_pages(
                sink,
                partition=span.partition,
                start=start,
                end=span.end,
                on_gap="yield",
                incarnation=incarnation,
            ) as replay:
                for found in replay:
                    start = found.last_offset + 1
                    yield found if isinstance(found, StoredPage) else _missing(found, span)
            return
        except errors.OffsetTrimmed as error:
            if error.earliest <= start:
                raise
            yield Missing(span.partition, start, min(error.earliest, span.end) - 1, TRIMMED)
            start = error.earliest


def joined(every: Iterator[StoredPage | Missing]) -> Iterator[StoredPage | Missing]:
    """Join adjacent missing ranges with the same reason, because pages are dropped one by one."""
    waiting: Missing | None = None
    for found in every:
        if isinstance(found, Missing) and waiting is not None and waiting.adjoins(found):
            waiting = replace(waiting, last_offset=found.last_offset)
            continue
        if waiting is not None:
            yield waiting
        waiting = found if isinstance(found, Missing) else None
        if isinstance(found, StoredPage):
            yield found
    if waiting is not None:
        yield waiting


def _missing(gap: Gap, span: Span) -> Missing:
    return Missing(gap.partition, gap.first_offset, min(gap.last_offset, span.end - 1), gap.reason.value)


def _lost(missing: Missing, sink: str) -> ForebaySparkError:
    return ForebaySparkError(
        f"Offsets {missing.first_offset} to {missing.last_offset} of partition {missing.partition} of sink {sink!r} "
        f"are gone ({missing.reason}).",
        f"See the reason with: forebay gaps {sink}; then continue without them: "
        '.option("failOnDataLoss", "false") leaves out what is gone, and .option("metadata", "_gap") tells where.',
    )


def _unreadable(page: StoredPage, broken: errors.InvalidPage, sink: str) -> ForebaySparkError:
    return ForebaySparkError(
        f"Offsets {page.first_offset} to {page.last_offset} of partition {page.partition} of sink {sink!r} hold rows "
        f"that cannot be decoded: {broken}",
        f"Display them with: forebay peek {sink} -p {page.partition} --offset {page.first_offset}; then leave "
        'them out: .option("failOnDataLoss", "false") skips the rows that cannot be decoded, and '
        '.option("metadata", "_gap") shows their place.',
    )


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches: a sink that was fed record by record has one page per record."""
    waiting: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        waiting.append(batch)
        records += batch.num_rows
        size += batch.nbytes
        if records >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield one_batch(waiting)
            waiting, records, size = [], 0, 0
    if waiting:
        yield one_batch(waiting)
