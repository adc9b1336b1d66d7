"""Rows of fields in the text format of PostgreSQL's COPY, from rows with a schema or JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.client.values.records import Encoding, StoredPage
from forebay.deliver.batches.batch import Batch
from forebay.deliver.targets.postgresql.json_rows import json_rows
from forebay.deliver.targets.postgresql.rows import Rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table

PARTS_MAX: Final = 4
"""Most parts of a page that are converted by column: all of it is decoded for each."""


def field_rows(batch: Batch, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of a batch: those with a schema by page, the others as `json_rows` does.

    Raises as that does.
    """
    begin = batch.first_offset
    for page in batch.pages:
        rows = _by_column(page, table, unknown)
        if rows is not None:
            yield from _json_rows(batch, begin, page.first_offset, table, unknown)
            yield rows
            begin = page.last_offset + 1
    yield from _json_rows(batch, begin, batch.last_offset + 1, table, unknown)


def _by_column(page: StoredPage, table: Table, unknown: UnknownFields) -> Rows | None:
    if page.encoding is not Encoding.ARROW or PARTS_MAX * len(page) < page.record_count:
        return None
    # It needs pyarrow, an optional extra, which has read the rows before.
    from forebay.deliver.targets.postgresql.schema_rows import schema_rows  # noqa: PLC0415

    return schema_rows(page, table, unknown)


def _json_rows(batch: Batch, begin: int, end: int, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    rest = batch.from_offset(begin)
    part = rest.below(end) if rest is not None else None
    return json_rows(part, table, unknown) if part is not None else iter(())
