"""Checksums that are combined from those of pieces are the ones of the bytes."""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.replication import pieces as of_pieces
from forebay.broker.storage.replication.pieces import Piece, Pieces

SOME = st.binary(max_size=40)


def viewed(data: bytes) -> memoryview:
    """A view of bytes."""
    return memoryview(data)


DATA = st.lists(st.one_of(SOME, SOME.map(viewed)), max_size=8)


@given(DATA, st.binary(max_size=10))
def test_the_checksum_of_pieces_is_that_of_their_bytes(data: list[Piece], before: bytes) -> None:
    found = Pieces.of(data)

    assert found.size == len(b"".join(data))
    assert found.crc32() == zlib.crc32(b"".join(data))
    assert found.crc32(zlib.crc32(before)) == zlib.crc32(before + b"".join(data))


@given(DATA, DATA, st.data())
def test_joined_parts_have_the_bytes_the_end_and_the_checksum_of_both(
    one: list[Piece], other: list[Piece], data: st.DataObject
) -> None:
    whole = b"".join([*one, *other])
    size = data.draw(st.integers(0, len(whole)))

    found = Pieces.joining([Pieces.of(one), Pieces.of(other)])

    assert found.joined() == whole
    assert found.end(size) == whole[len(whole) - size :]
    assert found.crc32() == zlib.crc32(whole)


@given(DATA, st.lists(st.integers(0, 4), max_size=2).map(sorted), st.data())
def test_pieces_are_sealed_by_their_checksum_alone_however_they_are_cut(
    data: list[Piece], cuts: list[int], drawn: st.DataObject
) -> None:
    seal = zlib.crc32(b"".join(data)).to_bytes(4, "big")
    ends = [seal[first:end] for first, end in itertools.pairwise([0, *cuts, 4])]
    assert Pieces.of([*data, *ends]).is_sealed()

    whole = bytearray(b"".join([*data, *ends]))
    whole[drawn.draw(st.integers(0, len(whole) - 1))] ^= drawn.draw(st.integers(1, 255))

    assert not Pieces.of([bytes(whole)]).is_sealed()
    assert not Pieces.of([seal[:3]]).is_sealed()


@given(DATA.filter(any), st.integers(1, 60))
def test_parts_have_the_same_bytes_and_the_checksums_of_theirs(data: list[Piece], bytes_max: int) -> None:
    whole = b"".join(data)

    parts = Pieces.of(data).cut(bytes_max)

    assert b"".join(b"".join(part.data) for part in parts) == whole
    assert len(parts) == -(-len(whole) // bytes_max)
    assert max(part.size for part in parts) - parts[-1].size < len(parts)
    for part in parts:
        assert [zlib.crc32(piece) for piece in part.data] == part.crcs


def test_no_byte_is_read_for_a_cut_but_those_of_pieces_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def note(data: Piece) -> int:
        read.append(len(data))
        return zlib.crc32(data)

    monkeypatch.setattr(of_pieces, "crc32", note)
    pieces = Pieces.of([bytes(10), bytes(100), bytes(90), bytes(200)])
    assert read == [10, 100, 90, 200]

    parts = pieces.cut(100)

    assert [part.size for part in parts] == [100, 100, 100, 100]
    assert read[4:] == [90, 100]
    assert [part.crc32() for part in parts] == [zlib.crc32(bytes(100))] * 4


def test_a_part_shares_the_memory_of_its_pieces() -> None:
    data = bytearray(100)

    first, second = Pieces.of([memoryview(data)]).cut(50)
    data[0], data[99] = 1, 2

    assert (first.data[0][0], second.data[0][49]) == (1, 2)
