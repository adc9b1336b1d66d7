from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.replication.engines.kafka.objects.message import (
    Header,
    MessageKind,
    MessageUnknown,
    decode,
    encode,
)

U32, U64 = st.integers(0, 2**32 - 2), st.integers(0, 2**64 - 1)


@given(st.sampled_from(MessageKind), U64, U64, st.text(max_size=50), U32, st.booleans(), U64, U64)
def test_a_header_is_read_as_it_was_written(
    kind: MessageKind, writer: int, number: int, name: str, part: int, last: bool, base: int, origin: int
) -> None:
    header = Header(kind, writer, number, name, part, part + 1 if last else 0, base, origin)

    assert decode(encode(header)) == header


@pytest.mark.parametrize("key", [None, b"", b"key of another program"])
def test_the_message_of_another_program_has_no_header(key: bytes | None) -> None:
    assert decode(key) is None


def test_a_kind_of_a_later_version_is_refused() -> None:
    key = bytearray(encode(Header(MessageKind.PUT, 1, 2, "x")))
    key[4] = 99

    with pytest.raises(MessageUnknown, match="its kind is 99"):
        decode(bytes(key))


def test_a_header_that_is_cut_off_is_refused() -> None:
    with pytest.raises(MessageUnknown, match="its header has 9 bytes"):
        decode(encode(Header(MessageKind.PUT, 1, 2, "x"))[:9])


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(MessageUnknown, match=r"its name is no UTF-8"):
        decode(encode(Header(MessageKind.PUT, 1, 2)) + b"\xff")
