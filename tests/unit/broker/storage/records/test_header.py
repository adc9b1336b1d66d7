from __future__ import annotations

import dataclasses
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.pages import Body
from forebay.broker.storage.records.header import HEADER_BYTES, Damaged, Header, body_of, decode_header

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
HEADERS = st.builds(
    Header,
    store=st.binary(min_size=16, max_size=16),
    sink=U32,
    partition=U32,
    number=U64,
    base=U64,
    count=U32,
    encoding=st.integers(0, 255),
    crc32=U32,
)
BYTES = b"the body of a page"
HEADER = Header(b"s" * 16, 1, 2, 3, 4, 5, 1, zlib.crc32(BYTES))
STORED = HEADER.encode() + BYTES


@given(header=HEADERS, body=st.binary(max_size=20))
def test_a_header_says_what_was_stored(header: Header, body: bytes) -> None:
    encoded = header.encode()

    assert len(encoded) == HEADER_BYTES
    assert decode_header(encoded + body) == header


def test_a_body_is_read_with_its_crc() -> None:
    assert body_of(STORED, HEADER) == Body(zlib.crc32(BYTES), BYTES)


def test_an_empty_body_is_a_body() -> None:
    header = dataclasses.replace(HEADER, crc32=zlib.crc32(b""))

    assert body_of(header.encode(), header) == Body(zlib.crc32(b""), b"")


def test_no_bit_of_a_page_can_flip_unnoticed() -> None:
    for place in range(len(STORED)):
        flipped = STORED[:place] + bytes([STORED[place] ^ 1]) + STORED[place + 1 :]
        with pytest.raises(Damaged):
            body_of(flipped, HEADER)


def test_a_page_that_was_cut_off_is_noticed() -> None:
    for length in range(len(STORED)):
        with pytest.raises(Damaged):
            body_of(STORED[:length], HEADER)


@pytest.mark.parametrize(
    "change", [{"store": b"t" * 16}, {"sink": 9}, {"partition": 9}, {"number": 9}, {"base": 9}, {"count": 9}]
)
def test_a_page_under_the_key_of_another_one_is_noticed(change: dict[str, int | bytes]) -> None:
    elsewhere = dataclasses.replace(HEADER, **change)  # type: ignore[arg-type]

    with pytest.raises(Damaged, match="another place"):
        body_of(STORED, elsewhere)


@given(header=HEADERS, stage=st.integers(1, 2**64 - 1))
def test_the_header_of_a_staged_page_knows_its_stage_in_the_place_of_its_offset(header: Header, stage: int) -> None:
    staged = dataclasses.replace(header, base=0, stage=stage)

    assert len(staged.encode()) == HEADER_BYTES
    assert decode_header(staged.encode()) == staged


def test_a_staged_page_is_its_own_at_any_offset_and_under_no_other_key() -> None:
    stored = dataclasses.replace(HEADER, base=0, stage=77).encode() + BYTES

    assert body_of(stored, dataclasses.replace(HEADER, base=123)) == Body(zlib.crc32(BYTES), BYTES)
    for sink, partition, number, count in ((9, 2, 3, 5), (1, 9, 3, 5), (1, 2, 9, 5), (1, 2, 3, 9)):
        elsewhere = dataclasses.replace(HEADER, sink=sink, partition=partition, number=number, count=count)
        with pytest.raises(Damaged, match="another place"):
            body_of(stored, elsewhere)


@pytest.mark.parametrize(("size", "problem"), [(1, "1 byte is too few for a page"), (2, "2 bytes are too few for a")])
def test_bytes_too_few_for_a_page_are_counted(size: int, problem: str) -> None:
    with pytest.raises(Damaged, match=problem):
        decode_header(bytes(size))
