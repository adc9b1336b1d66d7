"""Rows as columns have the values of their JSON, which is not made before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from forebay import arrow
from forebay.client import InvalidPage, StoredPage
from forebay.client.replay.columns import lazy_columns, whole_columns
from forebay.client.replay.row_columns import RowColumns
from forebay.client.replay.rows import VERSION_HEADER, PageRows, encode_rows
from forebay.deliver import Batch, BatchLimits
from forebay.deliver.batches.cutting import batches_of
from forebay.page.columns import Columns
from tests.support.pages.invalid_text import unchecked_strings
from tests.support.targets.memory_source import MemoryDelivery
from tests.support.targets.rows_batch import rows_batch, run_of, stored_page

ROWS = pa.record_batch({"id": [1, 2, 3, 4], "name": ["a", None, "ü", '"']})
VALUES = [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}', '{"id":3,"name":"ü"}'.encode(), b'{"id":4,"name":"\\""}']


def columns_of(page: StoredPage) -> RowColumns:
    columns = lazy_columns(page)
    assert isinstance(columns, RowColumns)
    return columns


def damaged() -> StoredPage:
    """Three rows, the second one of which is not UTF-8."""
    names = unchecked_strings([b"a", b"\xff", b"c"])
    page = stored_page(pa.record_batch({"name": ["a", "b", "c"]}))
    body = encode_rows(1, 3, arrow.encode_batches([pa.record_batch({"name": names})])).body
    return StoredPage(*(page.partition, 0, 3, page.encoding, body, (), 0, 2), page.schema_of)


def test_rows_have_their_values_and_the_version_of_their_schema() -> None:
    columns = columns_of(stored_page(ROWS, version=7))

    assert columns.values == VALUES
    assert columns.headers == [((VERSION_HEADER, b"7"),)] * 4
    assert (columns.keys, columns.event_times_us, columns.unreadable) == (None, None, {})


def test_a_part_has_the_values_of_its_rows() -> None:
    columns = columns_of(stored_page(ROWS))

    assert columns.part(1, 4).part(0, 2).values == VALUES[1:3]
    assert len(columns.part(1, 1)) == len(columns.part(1, 1).values) == 0


@pytest.mark.parametrize(("first", "end"), [(0, 4), (0, 1), (1, 3), (3, 4), (2, 2)])
def test_no_part_has_more_bytes_than_its_bound(first: int, end: int) -> None:
    columns = columns_of(stored_page(ROWS))
    bound = columns.bytes_at_most()

    part = columns.part(first, end)

    assert sum(map(len, part.values)) <= part.bytes_at_most() == bound <= 200 * len(columns)


def test_a_row_that_cannot_be_decoded_has_no_value_and_keeps_its_place() -> None:
    columns = columns_of(damaged())

    assert list(columns.unreadable) == [1]
    assert columns.values == [b'{"name":"a"}', b"", b'{"name":"c"}']
    assert columns.part(1, 3).unreadable == {0: columns.unreadable[1]}
    assert columns.part(1, 3).bytes_at_most() >= len(b'{"name":"c"}')


def test_columns_that_are_asked_for_as_such_are_the_same() -> None:
    page = stored_page(ROWS)

    assert whole_columns(page) == Columns(VALUES, None, None, [((VERSION_HEADER, b"1"),)] * 4)


def test_a_type_without_json_is_unreadable_before_a_value_is_asked_for() -> None:
    page = stored_page(pa.record_batch({"span": pa.array([None, None], pa.month_day_nano_interval())}))

    columns = lazy_columns(page)

    assert isinstance(columns, Columns)
    assert ["no JSON form is defined" in why for why in columns.unreadable.values()] == [True, True]


class Delivered(MemoryDelivery):
    """A delivery of the runs of a batch."""

    def __init__(self, batch: Batch) -> None:
        super().__init__([])
        self.batch = batch

    def runs(self) -> Iterator[Any]:
        return (run_of(page) for page in self.batch.pages)


def test_no_json_is_made_for_batches_within_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(batch: pa.RecordBatch) -> list[bytes]:
        made.append(batch.num_rows)
        return [b"{}"] * batch.num_rows

    monkeypatch.setattr(arrow, "json_objects", counted)

    pages = rows_batch(*(stored_page(ROWS, first) for first in (0, 4, 8)))
    batches = list(batches_of("orders", Delivered(pages), BatchLimits(records_max=6)))

    assert [batch.last_offset for batch in batches] == [5, 11]
    assert made == []
    assert len(rows_batch(stored_page(ROWS)).values) == 4
    assert made == [4]


def test_a_page_without_the_json_that_its_types_promise_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(batch: pa.RecordBatch) -> list[bytes]:
        raise arrow.RowsUnreadable("no JSON can be made of the rows")

    monkeypatch.setattr(arrow, "json_objects", fail)
    page = stored_page(ROWS)

    assert list(whole_columns(page).unreadable) == [0, 1, 2, 3]
    with pytest.raises(InvalidPage, match="no JSON can be made"):
        _ = columns_of(page).values


def test_values_are_made_once_for_all_parts() -> None:
    rows = PageRows(stored_page(ROWS))

    assert rows.values is rows.values
    assert len(rows) == 4
