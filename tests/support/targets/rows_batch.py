"""Batches of rows with a schema, as the deliverer cuts them from stored pages."""

from __future__ import annotations

import pyarrow as pa

from forebay.client import Encoding, Schema, StoredPage, arrow
from forebay.client.consume.delivered_run import DeliveredRun
from forebay.client.consume.in_flight import InFlight
from forebay.client.replay.columns import lazy_columns
from forebay.deliver import Batch
from forebay.deliver.batches.records import BatchRecords


def stored_page(rows: pa.RecordBatch, first: int = 0, version: int = 1) -> StoredPage:
    """Return rows as a stored page of partition 3."""
    schema = Schema(version, None, arrow.encode_schema(rows.schema))
    body = arrow.page(rows, version).body
    last = first + rows.num_rows - 1
    return StoredPage(3, first, rows.num_rows, Encoding.ARROW, body, (), first, last, lambda _: schema)


def run_of(page: StoredPage) -> DeliveredRun:
    """Return the records of a page that is requested as a whole."""
    return DeliveredRun(InFlight(partition=3, incarnation="i", pages=(page,)), page, lazy_columns(page))


def rows_batch(*pages: StoredPage) -> Batch:
    """Return the records of consecutive pages as a batch."""
    return Batch("orders", "i", 3, BatchRecords(list(map(run_of, pages))))
