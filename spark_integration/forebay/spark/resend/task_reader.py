"""Task reader of a leased set. Settles nothing.

The pages of the set's offsets are replayed, and records outside of the set are left out. Records that another holder
has settled and that are gone are left out, too. Other missing records fail the task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forebay.client import Client, ResendRanges, StoredPage
from forebay.spark.options.read import ReadOptions
from forebay.spark.read.ranges import Missing
from forebay.spark.read.rows import PageReader
from forebay.spark.read.task_reader import TRIMMED, found_in, gone, in_task, joined, page_rows
from forebay.spark.resend.sets import spans, within
from forebay.spark.versions import InputPartition

_log: Final = logging.getLogger(__name__)
ATTEMPT_COLUMN: Final = "_attempt"


class ResendSplit(InputPartition):
    """Part of a set that one Spark task reads."""

    def __init__(self, part: ResendRanges) -> None:
        """Split of ``part``: one partition of the sink with ranges."""
        super().__init__(part)
        self.part = part


def read_resends(options: ReadOptions, pages: PageReader, part: ResendRanges) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as batches. Raises `ForebaySparkError`."""
    return in_task(options.target, lambda client: _batches(client, options, pages, part))


def _batches(client: Client, options: ReadOptions, pages: PageReader, part: ResendRanges) -> Iterator[pa.RecordBatch]:
    for span in spans(part):
        for found in joined(found_in(client, options.target.sink, span, part.incarnation)):
            for_us = within(part, found.first_offset, found.last_offset)
            if not for_us:
                continue
            if isinstance(found, StoredPage):
                rows, unreadable = _chosen(options, pages, found, part, for_us)
                yield rows
                for missing in unreadable:
                    for first, last in within(part, missing.first_offset, missing.last_offset):
                        yield from gone(options, pages, replace(missing, first_offset=first, last_offset=last))
                continue
            for first, last in for_us:
                yield from _missing(options, pages, replace(found, first_offset=first, last_offset=last))


def _missing(options: ReadOptions, pages: PageReader, missing: Missing) -> Iterator[pa.RecordBatch]:
    if missing.reason != TRIMMED:
        yield from gone(options, pages, missing)
        return
    _log.warning(
        "records were settled by another process sink=%s partition=%d first_offset=%d last_offset=%d",
        *(options.target.sink, missing.partition, missing.first_offset, missing.last_offset),
    )


def _chosen(
    options: ReadOptions, pages: PageReader, page: StoredPage, part: ResendRanges, for_us: list[tuple[int, int]]
) -> tuple[pa.RecordBatch, tuple[Missing, ...]]:
    """Return the requested records of a page with their failed attempts, and the undecodable ones."""
    first, last = for_us[0][0], for_us[-1][1]
    rows = page_rows(options, pages, replace(page, first_offset=first, last_offset=last))
    batch, kept = rows.batch, slice(None)
    if rows.kept is not None:
        kept = rows.kept.to_numpy(zero_copy_only=False)
    if ATTEMPT_COLUMN in batch.schema.names:
        at = batch.schema.get_field_index(ATTEMPT_COLUMN)
        tries = pa.array(_tries(part, first, last)[kept], batch.schema.field(at).type)
        columns = [tries if index == at else column for index, column in enumerate(batch.columns)]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    if len(for_us) == 1:
        return batch, rows.unreadable
    wanted = np.zeros(last - first + 1, dtype=np.bool_)
    for one, other in for_us:
        wanted[one - first : other - first + 1] = True
    return batch.filter(pa.array(wanted[kept])), rows.unreadable


def _tries(part: ResendRanges, first: int, last: int) -> NDArray[np.int32]:
    tries = np.zeros(last - first + 1, dtype=np.int32)
    for offset, failed in part.attempts:
        if first <= offset <= last:
            tries[offset - first] = failed
    return tries
