"""Pages of rows are framed without pyarrow, and read one by one with it."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from typing import Final

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow import encode_batches, encode_schema
from forebay.client import (
    Delivery,
    DropReason,
    Encoding,
    Gap,
    InvalidPage,
    ReplayedRecord,
    Schema,
    SettleResult,
    StoredPage,
    arrow,
)
from forebay.client.consume.in_flight import InFlight
from forebay.client.publish.pages import EncodedPage, frame_publish_page
from forebay.client.replay.columns import decode_columns, records_and_gaps
from forebay.client.replay.rows import VERSION_HEADER, encode_rows, read_rows
from forebay.packaging import install_command
from forebay.v1 import buffer_service_pb2, record_pb2
from tests.support.pages.invalid_text import unchecked_strings

BATCH: Final = pa.record_batch({"id": pa.array([1, 2, 3])})
NAMES: Final = pa.record_batch({"name": ["Germany", "Portugal", None, "Germany"] * 500})
SCHEMA: Final = Schema(4, None, encode_schema(BATCH.schema))


def schema_of(version: int) -> Schema:
    """The one version that there is."""
    assert version == 4
    return SCHEMA


def stored(page: EncodedPage, first: int = 10, last: int | None = None, schema: pa.Schema | None = None) -> StoredPage:
    """A page as it is read from the broker, from offset 10 on."""
    last = 9 + page.record_count if last is None else last
    found = schema_of if schema is None else lambda version: Schema(version, None, encode_schema(schema))
    return StoredPage(0, 10, page.record_count, page.encoding, page.body, (), first, last, found)


@given(version=st.integers(1, 65_536), count=st.integers(1, 65_536), messages=st.binary(min_size=1, max_size=300))
def test_a_body_is_what_protobuf_makes_of_it(version: int, count: int, messages: bytes) -> None:
    page = encode_rows(version, count, messages)

    expected = record_pb2.ArrowPage(schema_version=version, rows=count, messages=messages)
    assert page.body == expected.SerializeToString()
    rows = read_rows(stored(page))
    assert (rows.schema_version, rows.count, rows.messages) == (version, count, messages)


@given(
    columns=st.dictionaries(st.integers(0, 70_000), st.sampled_from([1, 2]), min_size=1, max_size=5).map(
        lambda found: sorted(found.items())
    ),
    messages=st.binary(min_size=1, max_size=300),
)
def test_a_body_with_dictionaries_is_what_protobuf_makes_of_it(columns: list[tuple[int, int]], messages: bytes) -> None:
    page = encode_rows(3, 7, messages, tuple(columns))

    coded = [record_pb2.DictionaryColumn(column=column, index_bytes=index_bytes) for column, index_bytes in columns]
    expected = record_pb2.ArrowPage(
        schema_version=3, rows=7, dictionary_columns=coded, dictionary_messages=messages
    ).SerializeToString()
    assert page.body == expected
    rows = read_rows(stored(page))
    assert (rows.messages, rows.dictionary_columns) == (messages, tuple(columns))


def test_the_messages_of_a_usual_page_are_not_copied() -> None:
    page = stored(encode_rows(300, 3, b"messages"))

    messages = read_rows(page).messages

    assert isinstance(messages, memoryview)
    assert messages.obj is page.body


BODIES: Final = st.binary(max_size=40) | st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from([b"\x08\x04", b"\x08\x84\x00", b"\x08\xff\xff\xff\xff\x7f", b"\x08", b""]),
    st.sampled_from([b"\x10\x03", b"\x10\x83\x80\x00", b"\x08\x05\x10\x03", b"\x10\x83\x80\x80\x80\x10"]),
    st.sampled_from([b"\x1a\x02ab", b"\x1a\x02ab\x08\x07", b"\x1a\x03ab", b"\x1a\x00", b"\x1a\x82\x00ab"]),
)


@given(body=BODIES)
def test_any_body_is_read_as_protobuf_reads_it_or_refused(body: bytes) -> None:
    page = StoredPage(0, 10, 3, Encoding.ARROW, body, (), 10, 12, schema_of)
    try:
        found = record_pb2.ArrowPage.FromString(body)
    except DecodeError:
        found = record_pb2.ArrowPage()

    try:
        rows = read_rows(page)
    except InvalidPage:
        is_ours = found.rows == 3 and found.schema_version and found.messages
        assert not is_ours or found.dictionary_messages or found.dictionary_columns
    else:
        assert (found.schema_version, found.rows, found.messages) == (rows.schema_version, 3, rows.messages)


def test_the_frame_of_a_page_names_its_encoding() -> None:
    frame = frame_publish_page(2, 5, encode_rows(1, 3, b"x"), "")

    sent = buffer_service_pb2.PublishRequest.FromString(frame).page
    assert (sent.encoding, sent.record_count, sent.partition) == (record_pb2.ENCODING_ARROW, 3, 2)


def test_rows_are_json_objects_that_name_their_schema() -> None:
    columns = decode_columns(stored(arrow.page(BATCH, 4), first=11))

    assert columns.values == [b'{"id":2}', b'{"id":3}']
    assert columns.headers == [((VERSION_HEADER, b"4"),)] * 2
    assert columns.keys is None


def test_the_wanted_rows_of_a_page_are_a_batch() -> None:
    page = stored(arrow.page(BATCH, 4, compression="lz4"), first=11, last=11)

    assert arrow.record_batch(page).to_pylist() == [{"id": 2}]
    assert arrow.schema_of(page) is SCHEMA
    assert arrow.arrow_schema(SCHEMA).equals(BATCH.schema)


def test_columns_with_a_dictionary_are_read_as_plain_ones() -> None:
    page = arrow.page(NAMES, 4, compression="zstd", dictionary=["name"])

    assert len(page.body) < len(arrow.page(NAMES, 4, compression="zstd").body)
    assert arrow.record_batch(stored(page, schema=NAMES.schema)).equals(NAMES, check_metadata=True)
    assert decode_columns(stored(page, schema=NAMES.schema)).values[1] == b'{"name":"Portugal"}'


@pytest.mark.parametrize("name", ["id", "nobody"])
def test_a_dictionary_is_for_columns_of_strings_and_binaries(name: str) -> None:
    with pytest.raises(InvalidPage, match=f"dictionary = '{name}'"):
        arrow.page(BATCH, 4, dictionary=[name])


def test_rows_without_a_reader_are_no_page() -> None:
    with pytest.raises(InvalidPage, match="must be at most 67108864 bytes in a page"):
        arrow.page(pa.record_batch({"a": [bytes(65 << 20)]}), 4, compression="zstd")


def test_a_small_page_that_becomes_huge_is_not_decoded() -> None:
    bomb = pa.record_batch({"a": [bytes(65 << 20)]})
    page = encode_rows(4, 1, encode_batches([bomb], "zstd"))

    with pytest.raises(InvalidPage, match="they become 68157449 bytes, and at most 67108864 are read"):
        arrow.record_batch(stored(page, schema=bomb.schema))
    with pytest.raises(InvalidPage, match=r"the page at offset 10 .* they become"):
        decode_columns(stored(page, schema=bomb.schema))


@pytest.mark.parametrize(
    "page",
    [
        EncodedPage(b"nonsense", 3, Encoding.ARROW),
        encode_rows(4, 3, b"nonsense"),
        EncodedPage(arrow.page(BATCH, 4).body, 2, Encoding.ARROW),
        encode_rows(4, 4, encode_batches([BATCH])),
        encode_rows(4, 3, encode_batches([pa.record_batch({"x": ["a", "b", "c"]})])),
        encode_rows(4, 3, encode_batches([BATCH]), ((0, 1),)),
        encode_rows(4, 3, encode_batches([BATCH]), ((0, 8),)),
        encode_rows(4, 3, b""),
        EncodedPage(encode_rows(4, 3, b"").body[:-2] + b"\x32\x04what", 3, Encoding.ARROW),
    ],
    ids=[
        "no page",
        "nonsense",
        "another number stated",
        "fewer rows",
        "another schema",
        "a dictionary of numbers",
        "an unknown dictionary",
        "no messages",
        "messages of a later version",
    ],
)
def test_a_page_that_contradicts_its_description_is_reported_by_its_offset(page: EncodedPage) -> None:
    with pytest.raises(InvalidPage, match="the page at offset 10"):
        decode_columns(stored(page))
    with pytest.raises(InvalidPage, match="the page at offset 10"):
        arrow.record_batch(stored(page))


BAD_TEXT: Final = pa.record_batch({"s": unchecked_strings([b"a", b"\xff", b"c"])})


def bad_page(first: int = 10, last: int = 12) -> StoredPage:
    """A page of a foreign writer whose second row is not UTF-8."""
    return stored(encode_rows(4, 3, encode_batches([BAD_TEXT])), first=first, last=last, schema=BAD_TEXT.schema)


def test_rows_beside_one_that_cannot_be_read_are_read_and_that_one_is_a_gap() -> None:
    first, gap, last = records_and_gaps(bad_page())

    assert isinstance(first, ReplayedRecord)
    assert isinstance(last, ReplayedRecord)
    assert [(one.offset, one.value) for one in (first, last)] == [(10, b'{"s":"a"}'), (12, b'{"s":"c"}')]
    assert isinstance(gap, Gap)
    assert (gap.first_offset, gap.last_offset, gap.reason) == (11, 11, DropReason.UNREADABLE)
    assert gap.detail == "column s: the string is not UTF-8"


def test_the_wanted_part_of_such_a_page_is_read_where_it_can_be() -> None:
    assert decode_columns(bad_page(12)).values == [b'{"s":"c"}']
    with pytest.raises(InvalidPage, match="offset 11 of partition 0 cannot be decoded: column s") as refused:
        decode_columns(bad_page(11))
    assert refused.value.facts["offset"] == "11"


def test_a_page_that_cannot_be_read_at_all_is_one_gap() -> None:
    [gap] = records_and_gaps(stored(encode_rows(4, 3, b"nonsense")))

    assert isinstance(gap, Gap)
    assert (gap.first_offset, gap.last_offset, gap.reason) == (10, 12, DropReason.UNREADABLE)


def test_a_delivery_yields_what_cannot_be_decoded_only_where_that_is_asked_for() -> None:
    delivery = Delivery(InFlight(partition=0, incarnation="i", pages=(bad_page(),)), NoSettler())

    found = list(delivery.with_unreadable())

    assert [(one.offset, one.value) for one in found] == [(10, b'{"s":"a"}'), (11, b""), (12, b'{"s":"c"}')]
    assert [one.unreadable for one in found] == ["", "column s: the string is not UTF-8", ""]
    readable = iter(delivery)
    assert next(readable).offset == 10
    for read in (lambda: next(readable), delivery.values):
        with pytest.raises(InvalidPage, match="offset 11 of partition 0 cannot be decoded"):
            read()


class NoSettler:
    """Takes no answers."""

    clock = staticmethod(time.monotonic)

    def touch(self, delivery: InFlight) -> float:
        """Do nothing."""
        return math.inf

    def settle(self, *_: object, **__: object) -> list[SettleResult]:
        """Do nothing."""
        return []


def test_a_page_of_records_is_no_batch() -> None:
    with pytest.raises(InvalidPage):
        arrow.record_batch(stored(EncodedPage(b"\x0a\x00", 1)))


WITHOUT_PYARROW: Final = """
import sys
sys.modules["pyarrow"] = None
from forebay.client import ArrowNotInstalled, Encoding, StoredPage
from forebay.client.replay.columns import decode_columns
from forebay.client.replay.rows import encode_rows
page = encode_rows(1, 1, b"rows")
try:
    decode_columns(StoredPage(0, 0, 1, Encoding.ARROW, page.body, (), 0, 0, lambda version: None))
except ArrowNotInstalled as error:
    print(error)
"""


def test_without_pyarrow_the_error_names_what_to_install() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True, check=True)

    assert install_command("arrow") in run.stdout
