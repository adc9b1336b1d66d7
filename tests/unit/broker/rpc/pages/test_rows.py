"""Single rows of a page are JSON objects; a page that misstates its rows is reported by its offset."""

from __future__ import annotations

import struct
import subprocess
import sys

import pyarrow as pa
import pytest

from forebay.arrow import encode_schema
from forebay.arrow.ipc import unvalidated_rows
from forebay.broker.core.errors import InvalidPage, SchemaNotFound
from forebay.broker.core.partition.pages import PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SchemaRecord
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.rpc.pages.records import placed
from forebay.broker.rpc.pages.rows import UNREADABLE_HEADER, VERSION_HEADER, CutRow, json_rows, shown_rows
from forebay.v1 import record_pb2
from tests.support.pages.invalid_text import unchecked_strings
from tests.support.pages.row_pages import JSON, SCHEMA, body, dictionary_body, schema_of, stored


def test_the_wanted_rows_come_by_offset() -> None:
    found = json_rows(*stored(10), [Range(0, 11), Range(12, 90)], schema_of)

    assert found == [CutRow(10, JSON[0]), CutRow(12, JSON[2])]


def test_rows_with_a_dictionary_are_the_same_objects() -> None:
    data = dictionary_body()

    found = json_rows(*stored(10, data), [Range(11, 13)], schema_of)
    [cut] = PageCodec().cut(*stored(10, data), [Range(12, 13)], schema_of)

    assert found == [CutRow(11, JSON[1]), CutRow(12, JSON[2])]
    assert (cut.record.value, cut.record.headers) == (JSON[2], ((VERSION_HEADER, b"1"),))


def test_a_row_as_a_record_names_its_schema_and_keeps_when_it_was_accepted() -> None:
    entry, data = stored(10, parts=(PagePart(10, 7), PagePart(12, 9)))

    found = list(placed(entry, data, Range(11, 13), schema_of))

    assert [(each.offset, each.accepted_at_us, each.record.value) for each in found] == [
        (11, 7, JSON[1]),
        (12, 9, JSON[2]),
    ]
    assert [(header.key, header.value) for header in found[0].record.headers] == [(VERSION_HEADER, b"1")]
    assert not found[0].record.HasField("key")


def test_a_row_is_cut_out_for_a_dead_letter() -> None:
    entry, data = stored(10, parts=(PagePart(10, 7, "trace"),))

    [cut] = PageCodec().cut(entry, data, [Range(11, 12)], schema_of)

    assert (cut.offset, cut.accepted_at_us, cut.traceparent) == (11, 7, "trace")
    assert (cut.record.value, cut.record.headers) == (JSON[1], ((VERSION_HEADER, b"1"),))


@pytest.mark.parametrize(
    "data",
    [
        body()[:30] + b"\xff" * 30 + body()[60:],
        body(pa.record_batch({"id": pa.array([1])}), rows=3),
        body(pa.record_batch({"x": pa.array([1, 2, 3])})),
        b"\x08\x01\x10\x03\x1a\x04nope",
        dictionary_body()[:40] + b"\xff" * 30 + dictionary_body()[70:],
    ],
    ids=["damaged", "fewer rows", "another schema", "nonsense", "damaged dictionary"],
)
def test_rows_that_are_not_what_was_said_are_reported_by_their_place(data: bytes) -> None:
    with pytest.raises(InvalidPage, match="the page at offset 10") as refused:
        json_rows(*stored(10, data), [Range(10, 13)], schema_of)

    assert refused.value.facts["base_offset"] == "10"


@pytest.mark.parametrize(
    "error", [TypeError, IndexError, OverflowError, RuntimeError, pa.ArrowCapacityError, struct.error]
)
def test_whatever_a_decoder_raises_for_a_page_it_is_reported_by_its_place(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise error("length is not a multiple of itemsize")

    monkeypatch.setattr("forebay.arrow.json_objects", damaged)

    with pytest.raises(InvalidPage, match="the page at offset 10"):
        json_rows(*stored(10), [Range(10, 13)], schema_of)


def test_a_schema_that_is_lost_is_reported() -> None:
    def lost(version: int) -> object:
        raise SchemaNotFound("orders", version, 3, damaged=True)

    with pytest.raises(SchemaNotFound, match=r"version 1 .* was damaged and is lost"):
        json_rows(*stored(), [Range(10, 13)], lost)  # type: ignore[arg-type]


BAD_TEXT = pa.record_batch({"id": pa.array([1, 2, 3]), "name": unchecked_strings([b"a", b"M\xfcller", b"c"])})
DAMAGED = body()[:30] + b"\xff" * 30 + body()[60:]


def test_a_row_with_text_that_is_not_utf8_is_cut_out_alone_as_it_was_published_and_the_others_as_json() -> None:
    [first, wrong, last] = PageCodec().cut(*stored(10, body(BAD_TEXT)), [Range(10, 13)], schema_of)

    assert (first.record.value, first.uncut) == (JSON[0], "")
    assert (last.record.value, last.uncut) == (JSON[2], "")
    assert wrong.uncut == "column name: the string is not UTF-8"
    alone = record_pb2.ArrowPage.FromString(wrong.record.value)
    assert (alone.schema_version, alone.rows) == (1, 1)
    row = unvalidated_rows(SCHEMA.arrow_schema, alone.messages, 1)
    assert row.column("name").cast(pa.binary()).to_pylist() == [b"M\xfcller"]


@pytest.mark.parametrize(
    ("data", "unreadable"), [(body(BAD_TEXT), [11]), (DAMAGED, [10, 11, 12])], ids=["one row", "the page"]
)
def test_rows_that_cannot_be_decoded_are_shown_and_pulled_with_why(data: bytes, unreadable: list[int]) -> None:
    shown = list(shown_rows(*stored(10, data), Range(10, 13), schema_of, chars_max=99))
    pulled = list(placed(*stored(10, data), Range(10, 13), schema_of))

    assert [row.offset for row in shown] == [found.offset for found in pulled] == [10, 11, 12]
    assert [row.offset for row in shown if row.unreadable] == unreadable
    assert all(row.text for row in shown)
    for found in pulled:
        [header] = found.record.headers
        assert header.key == (UNREADABLE_HEADER if found.offset in unreadable else VERSION_HEADER)
        assert bool(found.record.value) is (found.offset not in unreadable)


def test_rows_of_a_type_without_a_json_form_are_shown_with_why() -> None:
    batch = pa.record_batch({"c": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval())})
    schema = SchemaRecord(1, 7, encode_schema(batch.schema), "")

    [row, *_] = shown_rows(*stored(10, body(batch)), Range(10, 13), lambda _: schema, chars_max=99)

    assert row.unreadable
    assert "no JSON form is defined" in row.text


def test_a_schema_that_is_lost_makes_rows_unreadable_for_who_examines_them() -> None:
    def lost(version: int) -> SchemaRecord:
        raise SchemaNotFound("orders", version, 3, damaged=True)

    assert [row.unreadable for row in shown_rows(*stored(), Range(10, 13), lost, chars_max=99)] == [True] * 3


@pytest.mark.slow
def test_a_broker_without_rows_does_not_load_pyarrow() -> None:
    program = "import sys, forebay.broker.server; print('pyarrow' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False"]
