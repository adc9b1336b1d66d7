"""Division of rows into pages of rows: complete and in order."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.arrow import decode_rows, encode_schema
from forebay.client import Encoding, partition_of
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Compression
from forebay.spark.write.arrow_pager import TRIED_EVERY, ArrowPager, row_keys
from forebay.spark.write.pager import CompletePage
from forebay.spark.write.schema_registration import RowSchema
from forebay.v1 import record_pb2

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])


def batch(first: int, rows: int, *, text: int = 10) -> pa.RecordBatch:
    ids = list(range(first, first + rows))
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "text": pa.array(["x" * text] * rows)}, schema=SCHEMA)


def pager(schema: pa.Schema = SCHEMA, **changed: Any) -> ArrowPager:
    given_: dict[str, Any] = {
        "partition_by": (),
        "compression": Compression.NONE,
        "dictionary": (),
        "partitions": 3,
        "first_partition": 1,
        "page_bytes": 1 << 16,
        "page_records": 65_536,
        "linger_s": 1.0,
        **changed,
    }
    return ArrowPager(RowSchema(7, encode_schema(schema)), **given_)


def rows_of(ready: CompletePage, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    page = record_pb2.ArrowPage.FromString(ready.page.body)
    assert (page.schema_version, page.rows, ready.page.encoding) == (7, ready.page.record_count, Encoding.ARROW)
    columns = tuple((each.column, each.index_bytes) for each in page.dictionary_columns)
    return decode_rows(encode_schema(schema), page.dictionary_messages or page.messages, page.rows, columns)


def ids(pages: list[CompletePage]) -> list[int]:
    return [number for ready in pages for number in rows_of(ready).column("id").to_pylist()]


def filled(one: ArrowPager, *batches: pa.RecordBatch) -> list[CompletePage]:
    return [ready for each in batches for ready in one.add(each, now_s=0.0)] + list(one.rest())


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=6),
    text=st.integers(0, 300),
    page_bytes=st.integers(1 << 10, 1 << 16),
    page_records=st.integers(1, 2_000),
    compression=st.sampled_from(Compression),
    dictionary=st.sampled_from([(), ("text",), ("auto",)]),
)
def test_every_row_is_in_one_page_in_order_and_pages_keep_their_bounds(
    sizes: list[int],
    text: int,
    page_bytes: int,
    page_records: int,
    compression: Compression,
    dictionary: tuple[str, ...],
) -> None:
    batches = [batch(sum(sizes[:index]), size, text=text) for index, size in enumerate(sizes)]

    pages = filled(
        pager(
            partitions=1,
            page_bytes=page_bytes,
            page_records=page_records,
            compression=compression,
            dictionary=dictionary,
        ),
        *batches,
    )

    assert ids(pages) == list(range(sum(sizes)))
    assert all(len(one.page.body) <= page_bytes or one.page.record_count == 1 for one in pages)
    assert all(one.page.record_count <= page_records for one in pages)


def test_pages_are_well_filled() -> None:
    pages = filled(pager(partitions=1), *(batch(0, 10_000, text=20) for _ in range(5)))

    assert sum(len(one.page.body) for one in pages[2:-1]) > 0.9 * (1 << 16) * len(pages[2:-1])


# -- compression


def random_rows(first: int, rows: int) -> pa.RecordBatch:
    """Rows that no compression makes much smaller."""
    letters = random.Random(first)
    return batch(first, rows).set_column(
        1, SCHEMA.field(1), pa.array([letters.randbytes(40).hex() for _ in range(rows)])
    )


def sizes_per_row(pages: list[CompletePage]) -> list[float]:
    return [len(one.page.body) / one.page.record_count for one in pages]


def test_rows_that_become_half_as_large_are_compressed_from_the_first_page_on() -> None:
    batches = [batch(2_000 * n, 2_000, text=60) for n in range(8)]

    found = filled(pager(partitions=1, compression=Compression.AUTO), *batches)

    assert ids(found) == list(range(16_000))
    assert max(sizes_per_row(found)) < 40
    assert found[1].page.record_count > 3 * found[0].page.record_count


def test_rows_that_do_not_are_tried_once_in_many_pages_and_stored_as_they_are() -> None:
    batches = [random_rows(1_000 * n, 1_000) for n in range(100)]

    found = filled(pager(partitions=1, compression=Compression.AUTO), *batches)

    assert ids(found) == list(range(100_000))
    tried = [number for number, size in enumerate(sizes_per_row(found)) if size < 90]
    assert tried == [number for number in range(len(found)) if number % TRIED_EVERY == 0]
    assert sum(len(one.page.body) for one in found[1:-1]) > 0.9 * (1 << 16) * (len(found) - 2)


def test_rows_that_change_are_compressed_once_it_pays_and_no_more_when_it_does_not() -> None:
    small = [batch(1_000 * n, 1_000, text=80) for n in range(100, 200)]
    large = [random_rows(1_000 * n, 1_000) for n in range(100)]
    later = [random_rows(1_000 * n, 1_000) for n in range(200, 210)]

    sizes = sizes_per_row(filled(pager(partitions=1, compression=Compression.AUTO), *large, *small, *later))

    assert sizes[1] > 90  # random
    assert min(sizes) < 40  # the others
    assert sizes[-2] > 90  # random again


def test_a_page_of_few_bytes_is_left_as_it_is_and_says_nothing_of_later_ones() -> None:
    one = pager(partitions=1, compression=Compression.AUTO)
    few = filled(one, batch(0, 2, text=60))

    many = filled(one, *(batch(2_000 * n, 2_000, text=60) for n in range(8)))

    assert sizes_per_row(few)[0] > 70
    assert max(sizes_per_row(many)) < 40
    assert many[0].page.record_count > 700


def test_small_batches_share_a_page_until_it_has_waited_too_long() -> None:
    one = pager(partitions=1, linger_s=1.0)

    found = [list(one.add(batch(10 * n, 10), now_s=0.4 * n)) for n in range(5)]

    assert [len(ready) for ready in found] == [0, 0, 0, 1, 0]
    assert ids(found[3]) == list(range(30))
    assert ids(list(one.rest())) == list(range(30, 50))


def test_pages_of_rows_without_a_key_go_round() -> None:
    pages = filled(pager(page_records=100), batch(0, 450))

    assert [one.partition for one in pages] == [1, 2, 0, 1, 2]
    assert ids(pages) == list(range(450))


def test_a_row_that_is_larger_than_a_page_has_one_of_its_own() -> None:
    pages = filled(pager(partitions=1, page_bytes=1 << 12), batch(0, 1), batch(1, 1, text=10_000), batch(2, 1))

    assert ids(pages) == [0, 1, 2]
    assert [one.page.record_count for one in pages if len(one.page.body) > 1 << 12] == [1]


def test_rows_of_very_different_sizes_are_halved_until_they_fit() -> None:
    large = pa.record_batch({"id": [0, 1, 2, 3], "text": ["x", "x", "y" * 3_000, "z" * 3_000]}, schema=SCHEMA)

    pages = filled(pager(partitions=1, page_bytes=1 << 12), large)

    assert ids(pages) == [0, 1, 2, 3]
    assert all(len(one.page.body) <= 1 << 12 for one in pages)


@pytest.mark.parametrize("dictionary", [("text",), ("auto",), ("text", "auto")])
def test_values_that_repeat_are_stored_once_and_pages_hold_more_rows(dictionary: tuple[str, ...]) -> None:
    batches = [batch(2_000 * n, 2_000, text=40) for n in range(4)]

    plain, coded = filled(pager(partitions=1), *batches), filled(pager(partitions=1, dictionary=dictionary), *batches)

    assert ids(plain) == ids(coded)
    assert sum(len(one.page.body) for one in coded) < sum(len(one.page.body) for one in plain) / 4
    assert len(coded) < len(plain) / 2


def test_values_of_their_own_are_not_coded_unless_they_are_named() -> None:
    rows = pa.record_batch({"id": list(range(200)), "text": [f"text {n}" for n in range(200)]}, schema=SCHEMA)

    [left] = filled(pager(partitions=1, dictionary=("auto",)), rows)
    [coded] = filled(pager(partitions=1, dictionary=("text",)), rows)

    assert not record_pb2.ArrowPage.FromString(left.page.body).dictionary_columns
    assert [each.column for each in record_pb2.ArrowPage.FromString(coded.page.body).dictionary_columns] == [1]
    assert rows_of(left).equals(rows_of(coded))


def test_no_page_holds_more_than_readers_take() -> None:
    one = pager(partitions=1, compression=Compression.ZSTD, page_bytes=1 << 20)
    assert filled(one, batch(0, 5_000, text=900)), "it has learnt that rows become small"
    text = ["y" * (30 << 20)] * 3 + ["x"] * 2_000
    rows = pa.record_batch({"id": list(range(2_003)), "text": text}, schema=SCHEMA)

    pages = filled(one, rows)

    assert ids(pages) == list(range(2_003))


def test_an_unreadable_row_is_refused() -> None:
    rows = pa.record_batch({"id": [1, 2], "text": ["x", "y" * (65 << 20)]}, schema=SCHEMA)

    with pytest.raises(ForebaySparkError, match=r"A row is .* bytes, and readers take at most 67108864"):
        filled(pager(compression=Compression.ZSTD), rows)


def test_rows_with_a_key_go_where_a_record_with_it_goes_and_keep_their_order() -> None:
    rows = pa.record_batch({"id": list(range(300)), "text": [f"k{n % 7}" for n in range(300)]}, schema=SCHEMA)

    pages = filled(pager(partition_by=("text",)), rows.slice(0, 100), rows.slice(100))

    by_partition: dict[int, list[int]] = {}
    for ready in pages:
        found = rows_of(ready)
        assert {partition_of(text.encode(), 3) for text in found.column("text").to_pylist()} == {ready.partition}
        by_partition.setdefault(ready.partition, []).extend(found.column("id").to_pylist())
    assert all(found == sorted(found) for found in by_partition.values())
    assert sorted(number for found in by_partition.values() for number in found) == list(range(300))


def test_a_key_is_bytes_text_or_json() -> None:
    rows = pa.record_batch(
        {
            "s": pa.array(["é", None]),
            "b": pa.array([b"\xff", None]),
            "n": pa.array([42, None]),
            "d": pa.array([0, None], pa.date32()),
        }
    )

    assert row_keys(rows, ("s",)).to_pylist() == ["é".encode(), b"null"]
    assert row_keys(rows, ("b",)).to_pylist() == [b"\xff", b"null"]
    assert row_keys(rows, ("n",)).to_pylist() == [b"42", b"null"]
    assert row_keys(rows, ("d",)).to_pylist() == [b'"1970-01-01"', b"null"]
    assert row_keys(rows, ("n", "s")).to_pylist() == ['{"n":42,"s":"é"}'.encode(), b'{"n":null,"s":null}']
    assert zlib.crc32(b"42") % 3 == partition_of(b"42", 3)


def test_no_rows_are_no_page() -> None:
    assert filled(pager(), batch(0, 0)) == []


@pytest.mark.parametrize("compression", list(Compression))
def test_nested_rows_survive_slices_and_compression(compression: Compression) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
            ("s", pa.struct([("a", pa.string()), ("b", pa.bool_())])),
        ]
    )
    values = [{"id": n, "m": [("k", [n, None])] if n % 3 else None, "s": {"a": str(n), "b": None}} for n in range(500)]
    rows = pa.RecordBatch.from_pylist(values, schema=schema)

    pages = filled(pager(schema, partitions=1, page_bytes=4096, compression=compression), rows.slice(7))

    found = pa.Table.from_batches([rows_of(ready, schema) for ready in pages]).to_pylist()
    assert found == rows.slice(7).to_pylist()
