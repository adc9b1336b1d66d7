"""Batches of any size become pages that the broker takes, and every record arrives in its place, in order."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from forebay.client.values.records import PagePart, StoredPage
from forebay.page.count import count_records
from forebay.page.format import PAGE_RECORDS_MAX, RUNS_MAX
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows
from forebay.spark.read.arrow_pages import page_batch
from forebay.spark.read.schema import RECORD
from forebay.spark.write.pager import CompletePage, Pager
from forebay.spark.write.record_schema import RowPlan

ACCEPTED = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
KINDS = {
    "value": pa.binary(),
    "key": pa.binary(),
    "partition": pa.int32(),
    "event_time": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
}
READ = to_arrow_schema(RECORD, timezone="UTC")


def batch(**columns: Sequence[Any]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values, KINDS[name]) for name, values in columns.items()})


def pages(
    *batches: pa.RecordBatch,
    partitions: int = 1,
    first_partition: int = 0,
    page_bytes: int = 1 << 20,
    page_records: int = PAGE_RECORDS_MAX,
    linger_s: float = 60.0,
    times: Sequence[float] = (),
    kind: Rows = Rows.RECORD,
) -> list[CompletePage]:
    pager = Pager(
        RowPlan(kind, tuple(batches[0].schema.names)),
        partitions=partitions,
        first_partition=first_partition,
        page_bytes=page_bytes,
        page_records=page_records,
        linger_s=linger_s,
    )
    found: list[CompletePage] = []
    for index, one in enumerate(batches):
        found += pager.add(one, now_s=times[index] if times else 0.0)
    return [*found, *pager.rest()]


def stored(ready: CompletePage, base_offset: int = 0, first: int = 0, end: int | None = None) -> StoredPage:
    page = ready.page
    assert page.crc32 == zlib.crc32(page.body)
    return StoredPage(
        partition=ready.partition,
        base_offset=base_offset,
        record_count=page.record_count,
        encoding=page.encoding,
        body=page.body,
        parts=(PagePart(base_offset, ACCEPTED, ""),),
        first_offset=base_offset + first,
        last_offset=base_offset + (page.record_count if end is None else end) - 1,
    )


def rows(ready: CompletePage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page_batch(stored(ready), READ, sink="orders").to_pylist()
    return found


def values(found: Sequence[CompletePage], partition: int | None = None) -> list[bytes]:
    chosen = [ready for ready in found if partition is None or ready.partition == partition]
    return [row["value"] for ready in chosen for row in rows(ready)]


def test_a_small_task_is_one_page_in_its_own_partition() -> None:
    [ready] = pages(batch(value=[b"a", b"", b"ccc"]), partitions=4, first_partition=6)

    assert ready.partition == 2
    assert values([ready]) == [b"a", b"", b"ccc"]


def test_small_batches_share_a_page() -> None:
    [ready] = pages(batch(value=[b"a", b"b"]), batch(value=[b"c"]))

    assert values([ready]) == [b"a", b"b", b"c"]


def test_rows_that_may_go_anywhere_fill_one_partition_after_the_other() -> None:
    found = pages(
        batch(value=[bytes([65 + n]) * 500 for n in range(7)]), partitions=3, first_partition=1, page_bytes=1100
    )

    assert [ready.partition for ready in found] == [1, 2, 0, 1]
    assert b"".join(value[:1] for value in values(found)) == b"ABCDEFG"


def test_no_page_is_larger_than_asked_for_unless_it_is_one_record() -> None:
    found = pages(batch(value=[b"x" * size for size in (10, 1000, 5000, 10, 10, 960, 2000)]), page_bytes=1024)

    assert [ready.page.record_count for ready in found] == [1, 1, 1, 2, 1, 1]
    assert all(len(ready.page.body) <= 1024 or ready.page.record_count == 1 for ready in found)


def test_no_page_has_more_records_than_a_page_may_have() -> None:
    found = pages(*[batch(value=[b""] * 50_000)] * 3)

    assert [ready.page.record_count for ready in found] == [
        PAGE_RECORDS_MAX,
        PAGE_RECORDS_MAX,
        150_000 - 2 * PAGE_RECORDS_MAX,
    ]


def test_a_small_sink_gets_pages_with_few_records() -> None:
    found = pages(batch(value=[b"x"] * 7), page_records=3)

    assert [ready.page.record_count for ready in found] == [3, 3, 1]


def test_records_with_equal_keys_go_to_the_partition_of_the_key_in_order() -> None:
    keys = [b"a", b"b", None, b"a", b"c", b"b"]
    found = pages(batch(value=[bytes([48 + n]) for n in range(6)], key=keys), partitions=7, first_partition=3)

    for key, expected in ((b"a", [b"0", b"3"]), (b"b", [b"1", b"5"]), (b"c", [b"4"])):
        of_key = [row["value"] for ready in found for row in rows(ready) if row["key"] == key]
        assert of_key == expected
        assert {r.partition for r in found if any(row["key"] == key for row in rows(r))} == {zlib.crc32(key) % 7}
    assert {r.partition for r in found if any(row["key"] is None for row in rows(r))} == {3}


def test_a_named_partition_wins_over_the_key() -> None:
    found = pages(batch(value=[b"x", b"y", b"z"], key=[b"a", b"a", None], partition=[2, None, None]), partitions=4)

    assert values(found, 2) == ([b"x", b"y"] if zlib.crc32(b"a") % 4 == 2 else [b"x"])
    assert b"y" in values(found, zlib.crc32(b"a") % 4)
    assert b"z" in values(found, 0)


@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1])
def test_a_partition_that_the_sink_does_not_have_is_refused(wrong: int) -> None:
    with pytest.raises(ForebaySparkError, match=f"partition is {wrong} .* partitions 0 to 3"):
        pages(batch(value=[b"x", b"y"], partition=[0, wrong]), partitions=4)


def test_headers_and_event_times_arrive_and_null_stays_null() -> None:
    time = dt.datetime(2026, 5, 6, 7, 8, 9, 10, dt.UTC)
    [ready] = pages(
        batch(
            value=[b"x", b"y", b"z"],
            event_time=[time, None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)],
            headers=[[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}], None, []],
        )
    )

    found = rows(ready)

    assert [row["event_time"] for row in found] == [time, None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)]
    assert [row["headers"] for row in found] == [[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}], None, None]
    assert [row["key"] for row in found] == [None] * 3
    assert [row["accepted_at"] for row in found] == [ACCEPTED] * 3


def test_string_columns_are_written_as_utf8_whatever_their_width() -> None:
    for kind in (pa.string(), pa.large_string(), pa.large_binary()):
        column = pa.array(["é", "", "z"], pa.string()).cast(pa.binary()).cast(kind)
        [ready] = pages(pa.record_batch({"value": column, "key": column}))
        assert [(row["key"], row["value"]) for row in rows(ready)] == [("é".encode(),) * 2, (b"", b""), (b"z", b"z")]


def test_a_null_value_is_refused_with_its_row() -> None:
    with pytest.raises(ForebaySparkError, match="null in row 1") as error:
        pages(batch(value=[b"x", None]))

    assert "coalesce" in error.value.remedy


def test_a_null_header_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="headers holds a null"):
        pages(batch(value=[b"x"], headers=[[{"key": "a", "value": None}]]))


def test_other_rows_are_json_objects() -> None:
    [ready] = pages(pa.record_batch({"a": [1, 2], "b": ["x", None]}), kind=Rows.JSON)

    assert values([ready]) == [b'{"a":1,"b":"x"}', b'{"a":2,"b":null}']


def test_a_page_that_waited_too_long_goes_out_with_the_next_rows() -> None:
    found = pages(*[batch(value=[b"x"])] * 4, linger_s=1.0, times=[0.0, 0.9, 1.0, 1.5], partitions=8)

    assert [(ready.partition, ready.page.record_count) for ready in found] == [(0, 2), (1, 2)]


def test_open_pages_in_many_partitions_are_bounded() -> None:
    one = batch(value=[b"x" * 100_000] * 1000, partition=list(range(1000)))
    pager = Pager(
        RowPlan(Rows.RECORD, ("value", "partition")),
        partitions=1000,
        first_partition=0,
        page_bytes=1 << 20,
        page_records=PAGE_RECORDS_MAX,
        linger_s=60,
    )

    sent = sum(len(ready.page.body) for ready in pager.add(one, now_s=0.0))

    assert sent > len(one) * 100_000 - (80 << 20)
    assert sum(ready.page.record_count for ready in pager.rest()) + sent // 100_000 == 1000


def test_an_empty_batch_is_no_page() -> None:
    assert pages(batch(value=[])) == []


record = st.fixed_dictionaries(
    {
        "value": st.binary(max_size=400),
        "key": st.none() | st.binary(max_size=3),
        "partition": st.none() | st.integers(0, 4),
        "event_time": st.none() | st.datetimes(timezones=st.just(dt.UTC)),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.text("abé", min_size=1, max_size=5), "value": st.binary(max_size=40)}),
            max_size=2,
        ),
    }
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(record, max_size=30), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 5))
def test_every_record_arrives_once_in_its_partition_and_in_order(
    batches: list[list[dict[str, Any]]], first_partition: int, skip: int
) -> None:
    numbers = iter(range(1000))
    for row in (row for rows_of in batches for row in rows_of):
        row["value"] = b"%03d" % next(numbers) + row["value"]
    arrow = [batch(**{name: [row[name] for row in rows_of] for name in KINDS}) for rows_of in batches]
    written = {row["value"]: row for rows_of in batches for row in rows_of[skip:]}

    found = pages(*[one.slice(skip) for one in arrow], partitions=5, first_partition=first_partition, page_bytes=1024)

    assert all(len(ready.page.body) <= 1024 or ready.page.record_count == 1 for ready in found)
    arrived = [(ready.partition, row) for ready in found for row in rows(ready)]
    assert sorted(row["value"] for _, row in arrived) == sorted(written)
    for partition, row in arrived:
        sent = written[row["value"]]
        assert target(sent) in {partition, None}
        assert (row["key"], row["event_time"]) == (sent["key"], sent["event_time"])
        assert (row["headers"] or []) == (sent["headers"] or [])
    for partition in range(5):
        numbered = [row["value"] for where, row in arrived if where == partition]
        assert numbered == sorted(numbered)


def target(row: dict[str, Any]) -> int | None:
    """Return where a record must go, None where the task may choose."""
    if row["partition"] is not None:
        return int(row["partition"])
    return None if row["key"] is None else zlib.crc32(row["key"]) % 5


def test_a_read_may_want_a_part_of_a_page() -> None:
    [ready] = pages(
        batch(value=[b"a", b"b", b"c"], key=[b"1", None, b""], headers=[None, [{"key": "h", "value": b"v"}], None])
    )

    found = page_batch(stored(ready, base_offset=100, first=1, end=3), READ, sink="orders")

    assert found.schema == READ
    assert found.column("offset").to_pylist() == [101, 102]
    assert found.column("key").to_pylist() == [None, b""]
    assert found.column("headers").to_pylist() == [[{"key": "h", "value": b"v"}], None]


def test_no_page_has_more_runs_than_the_broker_takes() -> None:
    one = batch(value=[b"v"], key=[b"k"])

    found = pages(*[one] * (RUNS_MAX + 10))

    assert [ready.page.record_count for ready in found] == [RUNS_MAX, 10]
    assert [count_records(ready.page.body) for ready in found] == [RUNS_MAX, 10]
