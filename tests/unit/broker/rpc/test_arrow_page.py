"""The framing of a page of rows is taken apart without a look at the rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.rpc import arrow_page
from holdfast.v1 import record_pb2

U32 = st.integers(1, (1 << 32) - 1)


def body(**fields: object) -> bytes:
    given = {"schema_version": 3, "rows": 7, "messages": b"messages", **fields}
    return record_pb2.ArrowPage(**given).SerializeToString()  # type: ignore[arg-type]


@given(version=U32, rows=st.integers(0, 1 << 31), messages=st.binary(min_size=1, max_size=300))
def test_it_finds_what_protobuf_finds(version: int, rows: int, messages: bytes) -> None:
    found = arrow_page.read(body(schema_version=version, rows=rows, messages=messages))

    assert (found.schema_version, found.rows, bytes(found.messages)) == (version, rows, messages)


def test_the_messages_of_a_usual_page_are_not_copied() -> None:
    whole = body()

    assert isinstance(arrow_page.read(whole).messages, memoryview)
    assert arrow_page.read(whole).messages.obj is whole  # type: ignore[union-attr]


def test_fields_in_another_order_are_found_too() -> None:
    turned = body(schema_version=0, rows=0) + b"\x10\x07\x08\x03"

    found = arrow_page.read(turned)

    assert (found.schema_version, found.rows, found.messages) == (3, 7, b"messages")


@given(st.binary(max_size=60))
def test_whatever_comes_is_a_page_or_a_value_error(data: bytes) -> None:
    try:
        arrow_page.read(data)
    except ValueError:
        return
    record_pb2.ArrowPage.FromString(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no version"),
        (body(schema_version=0), "no version"),
        (body(messages=b""), "no messages"),
        (b"\xff\xfe garbage", "cannot be parsed"),
        (body()[:-1], "cannot be parsed"),
    ],
)
def test_what_is_no_page_is_told(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        arrow_page.read(data)
