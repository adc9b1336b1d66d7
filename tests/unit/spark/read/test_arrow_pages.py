"""Only requested columns are decoded, and a missing range is one row."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from forebay.client.errors import InvalidPage
from forebay.client.publish.pages import encode_columns
from forebay.client.values.records import PagePart, StoredPage
from forebay.spark.read.arrow_pages import missing_batch, page_batch, within
from forebay.spark.read.ranges import Missing
from forebay.spark.read.schema import read_schema

ACCEPTED = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
HEADERS = [[("name", b"value")], []]


def stored() -> StoredPage:
    """Two records with headers, at offset 7 of partition 1."""
    page = encode_columns([b"one", b"two"], headers=HEADERS)
    return StoredPage(1, 7, page.record_count, page.encoding, page.body, (PagePart(7, ACCEPTED, ""),), 7, 8)


def damaged() -> StoredPage:
    """The same, with headers that cannot be decoded; the columns of the page are whole."""
    page = stored()
    whole = b"\x0a\x0d\x0a\x04name\x12\x05value"
    assert whole in page.body
    return replace(page, body=page.body.replace(whole, b"\xff" * len(whole)))


@pytest.mark.parametrize("columns", [("value",), ("offset", "key")])
def test_headers_that_were_not_requested_are_not_decoded(columns: tuple[str, ...]) -> None:
    schema = to_arrow_schema(read_schema(columns, ()), timezone="UTC")

    assert page_batch(damaged(), schema, sink="orders").num_rows == 2
    with pytest.raises(InvalidPage):
        page_batch(damaged(), to_arrow_schema(read_schema(("headers",), ()), timezone="UTC"), sink="orders")


def test_a_page_whose_lengths_do_not_fit_is_refused_and_not_read_beyond_its_end() -> None:
    page = stored()
    lengths = (3).to_bytes(4, "little") * 2
    assert lengths in page.body
    longer = replace(page, body=page.body.replace(lengths, (1000).to_bytes(4, "little") * 2))

    with pytest.raises(InvalidPage, match="lengths"):
        page_batch(longer, to_arrow_schema(read_schema(("value",), ()), timezone="UTC"), sink="orders")


def test_all_there_is_about_a_record_comes_from_its_page() -> None:
    schema = to_arrow_schema(read_schema(("value",), ("true",)), timezone="UTC")

    batch = page_batch(replace(stored(), first_offset=8), schema, sink="orders")

    assert batch.schema == schema
    assert batch.to_pylist() == [
        {
            "value": b"two",
            "_sink": "orders",
            "_partition": 1,
            "_offset": 8,
            "_accepted_at": ACCEPTED,
            "_attempt": None,
            "_headers": None,
        }
    ]


@pytest.mark.parametrize(
    ("start_us", "end_us", "wanted"),
    [
        (10, 30, [True, False, True, False, False]),
        (11, None, [False, False, True, True, False]),
        (None, 10, [False, False, False, False, True]),
        (None, None, [True, False, True, True, True]),
        (-5, -4, [False, False, False, False, True]),
    ],
)
def test_a_time_range_holds_its_start_and_not_its_end_and_no_record_without_a_time(
    start_us: int | None, end_us: int | None, wanted: list[bool]
) -> None:
    page = encode_columns([b"x"] * 6, event_times_us=[20, 10, None, 29, 30, -5])
    stored = StoredPage(1, 7, 6, page.encoding, page.body, (PagePart(7, ACCEPTED, ""),), 8, 12)

    assert within(stored, start_us, end_us).to_pylist() == wanted


def test_a_page_without_times_is_in_no_range() -> None:
    assert within(stored(), 0, None).to_pylist() == [False, False]
    assert within(damaged(), 0, None).to_pylist() == [False, False], "headers are not looked at"


def test_a_gap_is_one_row_with_its_position_and_no_other_value() -> None:
    schema = to_arrow_schema(read_schema(None, ("_partition", "_gap")), timezone="UTC")

    [row] = missing_batch(Missing(1, 3, 9, "PURGED"), schema, sink="orders").to_pylist()

    assert {name: value for name, value in row.items() if value is not None} == {
        "partition": 1,
        "offset": 3,
        "_partition": 1,
        "_gap": {"first_offset": 3, "last_offset": 9, "reason": "PURGED"},
    }
