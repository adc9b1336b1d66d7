"""Decoding: the usual form fast, every other legal form right, and nothing damaged as if it were whole."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import Encoding, InvalidPage, PageCorrupt, PagePart, StoredPage
from forebay.client.publish.pages import EncodedPage, encode_columns
from forebay.client.replay.columns import checked_body, decode_columns, decode_records, runs
from forebay.page import varint
from forebay.page.crc32 import crc32
from forebay.page.header_pairs import Headers
from forebay.v1 import record_pb2

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Rows = list[tuple[bytes, bytes | None, int | None, Headers]]
RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.none() | st.binary(max_size=5),
        st.none() | st.integers(-(2**50), 2**50),
        st.lists(st.tuples(st.text(min_size=1, max_size=3), st.binary(max_size=3)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def encoded(rows: Rows) -> EncodedPage:
    values, keys, times, headers = (list(column) for column in zip(*rows, strict=True))
    return encode_columns(values, keys, times, headers)


def stored(body: bytes, count: int, *, base: int = 0, first: int | None = None, last: int | None = None) -> StoredPage:
    return StoredPage(
        partition=3,
        base_offset=base,
        record_count=count,
        encoding=Encoding.RECORDS,
        body=body,
        parts=(PagePart(base, NOON, ""),),
        first_offset=base if first is None else first,
        last_offset=base + count - 1 if last is None else last,
    )


def rows_of(page: StoredPage) -> Rows:
    columns = decode_columns(page)
    count = len(columns)
    return list(
        zip(
            columns.values,
            columns.keys or [None] * count,
            columns.event_times_us or [None] * count,
            columns.headers or [()] * count,
            strict=True,
        )
    )


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_rows_encoded_in_one_or_several_joined_pages_are_decoded_unchanged(pages: list[Rows]) -> None:
    body = b"".join(encoded(rows).body for rows in pages)
    rows = [row for page in pages for row in page]

    assert rows_of(stored(body, len(rows))) == rows


@given(
    st.integers(0, 9), st.integers(1, 200), st.binary(min_size=1_800, max_size=1_800), st.none() | st.integers(0, 199)
)
def test_values_of_one_size_are_cut_as_any_others(size: int, count: int, noise: bytes, longer: int | None) -> None:
    values = [noise[index * size : (index + 1) * size] for index in range(count)]
    if longer is not None:
        values[longer % count] += b"+"

    assert decode_columns(stored(encode_columns(values).body, count)).values == values


@given(RECORDS, st.data())
def test_a_page_is_cut_to_what_is_wanted(rows: Rows, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, len(rows) - 1))

    page = stored(encoded(rows).body, len(rows), base=100, first=100 + first, last=100 + last)

    assert rows_of(page) == rows[first : last + 1]
    assert [record.offset for record in decode_records(page)] == list(range(100 + first, 100 + last + 1))


@given(RECORDS)
def test_another_writer_s_legal_form_is_decoded_too(rows: Rows) -> None:
    run = record_pb2.RecordPage.FromString(encoded(rows).body).runs[0]
    lengths = list(run.value_lengths)
    # Numbers one by one instead of packed, and the values before them.
    unpacked = b"".join(b"\x0d" + length.to_bytes(4, "little") for length in lengths)
    rest = record_pb2.RecordRun.FromString(run.SerializeToString())
    rest.ClearField("value_lengths")
    odd = rest.SerializeToString() + unpacked
    body = b"\x0a" + varint.encoded(len(odd)) + odd

    assert rows_of(stored(body, len(rows))) == rows


@given(RECORDS, st.data())
def test_a_body_that_is_cut_off_is_never_taken_for_a_whole_one(rows: Rows, data: st.DataObject) -> None:
    body = encoded(rows).body
    page = stored(body[: data.draw(st.integers(0, len(body) - 1))], len(rows))

    with pytest.raises(InvalidPage):
        decode_columns(page)


@given(st.binary(max_size=60))
def test_noise_is_decoded_or_refused_and_nothing_else(noise: bytes) -> None:
    page = stored(noise, 1)

    with suppress(InvalidPage):
        assert len(decode_columns(page)) == 1


def test_columns_that_do_not_go_together_are_refused() -> None:
    def body(**fields: object) -> bytes:
        run = record_pb2.RecordRun(**fields)  # type: ignore[arg-type]
        return record_pb2.RecordPage(runs=[run]).SerializeToString()

    for wrong in (
        body(value_lengths=[2], values=b"abc"),
        body(value_lengths=[1], values=b"a", key_lengths=[1, 1], keys=b"ab"),
        body(value_lengths=[1], values=b"a", key_lengths=[1], keys=b"ab"),
        body(value_lengths=[1], values=b"a", event_times_us=[1, 2]),
        body(value_lengths=[1, 1], values=b"ab"),
    ):
        with pytest.raises(InvalidPage):
            decode_columns(stored(wrong, 1))


def test_records_know_when_their_part_was_accepted() -> None:
    later = NOON + timedelta(seconds=9)
    page = StoredPage(
        0,
        10,
        4,
        Encoding.RECORDS,
        encode_columns([b"a", b"b", b"c", b"d"], event_times_us=[None, 1_500_000, None, None]).body,
        (PagePart(10, NOON, ""), PagePart(12, later, "")),
        11,
        13,
    )

    records = list(decode_records(page))

    assert [record.accepted_at for record in records] == [NOON, later, later]
    assert records[0].event_time == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert records[1].event_time is None


def test_runs_are_slices_of_the_body() -> None:
    (run,) = runs(stored(encode_columns([b"ab", b"c"]).body, 2))

    assert bytes(run.values) == b"abc"
    assert bytes(run.value_lengths) == bytes([2, 0, 0, 0, 1, 0, 0, 0])
    assert len(run) == 2


def test_a_page_in_an_encoding_from_the_future_is_refused() -> None:
    page = StoredPage(0, 0, 1, Encoding.UNSPECIFIED, b"", (), 0, 0)

    with pytest.raises(InvalidPage, match="cannot decode"):
        runs(page)


def test_a_body_that_was_published_so_is_returned() -> None:
    page = record_pb2.StoredPage(base_offset=7, body=b"abc", crc32=crc32(b"abc"))

    assert checked_body(page) == b"abc"


def test_a_body_that_fails_its_checksum_is_corrupt() -> None:
    with pytest.raises(PageCorrupt) as caught:
        checked_body(record_pb2.StoredPage(base_offset=7, body=b"abc", crc32=1))

    assert caught.value.facts["base_offset"] == "7"
