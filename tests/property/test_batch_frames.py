"""Frames of batches: what is encoded is decoded again, and no other bytes are taken for a frame."""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.replication.batch import Batch, FrameDamaged, decode, encode
from forebay.broker.storage.replication.pieces import Pieces
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put, PutAll

KEYS = st.binary(max_size=20)
SMALL = st.sampled_from([Family.SMALL, Family.INDEX, Family.META])


@st.composite
def put_alls(draw: st.DrawFn) -> PutAll:
    entries = draw(st.lists(st.tuples(KEYS, KEYS), max_size=5))
    return PutAll(draw(SMALL), [key for key, _ in entries], [value for _, value in entries])


OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Put, SMALL, KEYS, st.binary(max_size=100)),
    put_alls(),
    st.builds(Delete, st.sampled_from(Family), KEYS),
    st.tuples(st.sampled_from(Family), KEYS, KEYS).map(lambda of: DeleteRange(of[0], *sorted(of[1:]))),
)
VALUES = st.one_of(st.binary(max_size=100), st.tuples(st.binary(max_size=9), st.binary(max_size=50)))
BATCHES = st.builds(Batch, st.lists(st.tuples(KEYS, VALUES), max_size=4), st.lists(OPERATIONS, max_size=8))


def whole(batch: Batch) -> Batch:
    """Return the batch with each bulk value in one piece."""
    values = [(key, value if isinstance(value, bytes) else b"".join(value)) for key, value in batch.bulk]
    return Batch(values, batch.operations)


@given(BATCHES, st.data())
def test_a_batch_is_decoded_as_it_was_encoded_however_its_frame_is_cut(batch: Batch, data: st.DataObject) -> None:
    frame = encode(batch).joined()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frame)), max_size=6)))
    pieces = Pieces.of(frame[first:end] for first, end in itertools.pairwise([0, *cuts, len(frame)]))

    found = decode(pieces)

    assert whole(found) == whole(batch)
    assert encode(found).joined() == frame


@given(BATCHES, st.data())
def test_a_changed_byte_or_a_missing_end_is_damage(batch: Batch, data: st.DataObject) -> None:
    frame = bytearray(encode(batch).joined())
    at = data.draw(st.integers(0, len(frame) - 1))
    shorter = bytes(frame[:at])
    frame[at] ^= data.draw(st.integers(1, 255))

    for damaged in (shorter, bytes(frame)):
        with pytest.raises(FrameDamaged):
            decode(Pieces.of([damaged]))


@given(st.binary(max_size=200))
def test_other_bytes_with_a_right_checksum_are_a_frame_or_damage(content: bytes) -> None:
    content = b"\x01" + content
    frame = content + zlib.crc32(content).to_bytes(4, "big")
    try:
        found = decode(Pieces.of([frame]))
    except FrameDamaged:
        return

    assert encode(found).joined() == frame
