"""The framing of a page of rows is parsed without reading the rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.page.rows import rows_of
from forebay.v1 import record_pb2

U32 = st.integers(1, (1 << 32) - 1)


def body(**fields: object) -> bytes:
    given = {"schema_version": 3, "rows": 7, "messages": b"messages", **fields}
    return record_pb2.ArrowPage(**given).SerializeToString()  # type: ignore[arg-type]


def with_dictionaries(*columns: tuple[int, int], **fields: object) -> bytes:
    coded = [record_pb2.DictionaryColumn(column=column, index_bytes=index_bytes) for column, index_bytes in columns]
    return body(**{"messages": b"", "dictionary_messages": b"coded", "dictionary_columns": coded, **fields})


@given(version=U32, rows=st.integers(0, 1 << 31), messages=st.binary(min_size=1, max_size=300))
def test_it_finds_what_protobuf_finds(version: int, rows: int, messages: bytes) -> None:
    found = rows_of(body(schema_version=version, rows=rows, messages=messages))

    assert (found.schema_version, found.count, bytes(found.messages)) == (version, rows, messages)


def test_the_messages_of_a_usual_page_are_not_copied() -> None:
    whole = body()

    assert isinstance(rows_of(whole).messages, memoryview)
    assert rows_of(whole).messages.obj is whole  # type: ignore[union-attr]


def test_fields_in_another_order_are_found_too() -> None:
    turned = body(schema_version=0, rows=0) + b"\x10\x07\x08\x03"

    found = rows_of(turned)

    assert (found.schema_version, found.count, found.messages) == (3, 7, b"messages")


def test_columns_with_a_dictionary_are_found() -> None:
    found = rows_of(with_dictionaries((0, 1), (7, 2)))

    assert (found.count, found.messages, found.dictionary_columns) == (7, b"coded", ((0, 1), (7, 2)))


def test_a_reader_that_does_not_know_dictionaries_finds_no_messages() -> None:
    page = record_pb2.ArrowPage.FromString(with_dictionaries((0, 1)))

    assert not page.messages


@given(st.binary(max_size=60))
def test_whatever_comes_is_a_page_or_a_value_error(data: bytes) -> None:
    try:
        rows_of(data)
    except ValueError:
        return
    record_pb2.ArrowPage.FromString(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no version"),
        (body(schema_version=0), "no version"),
        (body(messages=b""), "no messages that this version knows"),
        (with_dictionaries((0, 1), dictionary_messages=b""), "no messages that this version knows"),
        (with_dictionaries((0, 1), messages=b"plain"), "with and without dictionaries"),
        (with_dictionaries(), "0 columns have a dictionary: 1 to 1024 may"),
        (with_dictionaries(*((n, 1) for n in range(1_025))), "1025 columns have a dictionary"),
        (with_dictionaries((3, 1), (2, 1)), "not in order"),
        (with_dictionaries((3, 1), (3, 1)), "not in order"),
        (with_dictionaries((3, 4)), "indices that this version does not know"),
        (b"\xff\xfe garbage", "cannot be parsed"),
        (body()[:-1], "cannot be parsed"),
    ],
)
def test_data_that_is_no_page_is_reported_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rows_of(data)
