"""A batch has the rows of its pages and of its objects in their order, whichever way they are converted."""

from __future__ import annotations

import pyarrow as pa

from forebay.deliver import Batch
from forebay.deliver.batches.records import BatchRecords
from forebay.deliver.source import RecordRun
from forebay.deliver.targets.postgresql import field_rows as module
from forebay.deliver.targets.postgresql.field_rows import PARTS_MAX, field_rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table
from tests.support.targets.copy_rows import rows_of
from tests.support.targets.memory_source import MemoryRecord, MemoryRun
from tests.support.targets.rows_batch import rows_batch, run_of, stored_page

TABLE = Table({"number": "bigint", "list": "text"})


def rows(batch: Batch) -> list[tuple[str | None, ...]]:
    return [row for one in field_rows(batch, TABLE, UnknownFields.REJECT) for row in rows_of(one)]


def test_a_batch_of_rows_and_of_objects_has_the_rows_of_both_in_their_order() -> None:
    runs: list[RecordRun] = [
        run_of(stored_page(pa.record_batch({"number": [0, 1]}))),
        MemoryRun([MemoryRecord(2, b'{"number": 2}'), MemoryRecord(3, b'{"number": 3}')]),
        run_of(stored_page(pa.record_batch({"number": [4]}), 4)),
        MemoryRun([MemoryRecord(5, b'{"number": 5}')]),
    ]

    assert rows(Batch("orders", "i", 3, BatchRecords(runs))) == [(str(number),) for number in range(6)]
    assert rows(Batch("orders", "i", 3, (MemoryRecord(0, b'{"number": 7}'),))) == [("7",)]


def test_rows_that_have_no_cells_by_column_are_converted_one_by_one() -> None:
    assert rows(rows_batch(stored_page(pa.record_batch({"list": pa.array([[1, 2]])})))) == [("[1, 2]",)]


def test_a_part_of_a_page_has_its_rows_however_small_it_is() -> None:
    count = PARTS_MAX * 2
    batch = rows_batch(stored_page(pa.record_batch({"number": list(range(count))})))

    assert rows(batch.only(3)) == [("3",)]
    assert rows(batch.halves()[1]) == [(str(number),) for number in range(count // 2, count)]
    [small] = batch.only(3).pages
    [half] = batch.halves()[1].pages
    assert module._by_column(small, TABLE, UnknownFields.REJECT) is None, "all of the page would be decoded for it"
    assert module._by_column(half, TABLE, UnknownFields.REJECT) is not None
