"""The rule by which records become batches."""

from __future__ import annotations

import pytest

from forebay.broker.storage.replication.batch import FrameDamaged
from forebay.broker.storage.replication.history import History, ReaderPosition
from forebay.broker.storage.replication.record import Header, RecordDamaged, RecordKind, decode, encode
from tests.support.storage.journals import batch_of

A, B = b"a" * 16, b"b" * 16


def fence_of(epoch: int, owner: bytes) -> bytes:
    return b"".join(encode(Header(RecordKind.FENCE, epoch, owner), [b"host:7461"]))


def chunk_of(number: int, epoch: int, owner: bytes, group: int, chunk: int = 0, chunks: int = 1) -> bytes:
    """A chunk of the batch of a number, which is cut into equal parts."""
    frame = b"".join(batch_of(number).data)
    size = -(-len(frame) // chunks)
    header = Header(RecordKind.CHUNK, epoch, owner, group, chunk, chunks)
    return b"".join(encode(header, [frame[chunk * size : (chunk + 1) * size]]))


def taken(*records: bytes) -> list[int]:
    """The numbers that a reader takes."""
    history = History()
    batches = [history.take(*decode(record)) for record in records]
    assert history.place.position == len(records)
    return [int.from_bytes(batch.operations[0].value, "big") for batch in batches if batch is not None]  # type: ignore[union-attr]


def test_groups_of_the_owner_count_in_their_order() -> None:
    assert taken(fence_of(1, A), chunk_of(7, 1, A, 0), chunk_of(8, 1, A, 1)) == [7, 8]


def test_a_group_counts_with_its_last_chunk() -> None:
    chunks = [chunk_of(7, 1, A, 0, chunk, 3) for chunk in range(3)]

    assert taken(fence_of(1, A), *chunks) == [7]
    assert taken(fence_of(1, A), *chunks[:2]) == []


def test_a_group_or_chunk_that_is_repeated_counts_once() -> None:
    first, last = (chunk_of(7, 1, A, 0, chunk, 2) for chunk in range(2))

    assert taken(fence_of(1, A), first, first, last, last, first, chunk_of(8, 1, A, 1)) == [7, 8]


def test_a_chunk_after_a_missing_one_does_not_count_until_it_is_repeated() -> None:
    first, last = (chunk_of(7, 1, A, 0, chunk, 2) for chunk in range(2))

    assert taken(fence_of(1, A), last, chunk_of(8, 1, A, 1), first, last, chunk_of(8, 1, A, 1)) == [7, 8]


def test_records_of_a_lower_epoch_after_a_fence_do_not_count() -> None:
    assert taken(fence_of(1, A), fence_of(2, B), chunk_of(7, 1, A, 0), chunk_of(8, 2, B, 0)) == [8]


def test_a_group_that_a_fence_cuts_off_does_not_count() -> None:
    first, last = (chunk_of(7, 1, A, 0, chunk, 2) for chunk in range(2))

    assert taken(fence_of(1, A), first, fence_of(2, B), last, chunk_of(8, 2, B, 0)) == [8]


def test_of_two_fences_with_one_epoch_the_first_counts() -> None:
    assert taken(fence_of(1, A), fence_of(1, B), chunk_of(7, 1, B, 0), chunk_of(8, 1, A, 0)) == [8]


def test_a_repeated_fence_of_the_owner_does_not_begin_its_groups_again() -> None:
    assert taken(fence_of(1, A), chunk_of(7, 1, A, 0), fence_of(1, A), chunk_of(7, 1, A, 0), chunk_of(8, 1, A, 1)) == [
        7,
        8,
    ]


def test_a_fence_of_a_lower_epoch_does_not_count() -> None:
    assert taken(fence_of(2, B), fence_of(1, A), chunk_of(7, 1, A, 0), chunk_of(8, 2, B, 0)) == [8]


def test_the_release_of_the_owner_is_known_and_that_of_a_former_one_is_not() -> None:
    history = History()
    for record in (fence_of(1, A), fence_of(2, B)):
        history.take(*decode(record))
    release = encode(Header(RecordKind.RELEASE, 1, A))
    history.take(*decode(b"".join(release)))
    before = history.place
    history.take(*decode(b"".join(encode(Header(RecordKind.RELEASE, 2, B)))))

    assert (before.released, history.place.released) == (False, True)
    assert history.endpoint == "host:7461"


def test_a_reader_continues_at_the_place_after_a_batch() -> None:
    before = History()
    for record in (fence_of(1, A), chunk_of(7, 1, A, 0)):
        before.take(*decode(record))
    assert before.place == ReaderPosition(2, 1, A, 1)

    batch = History(before.place).take(*decode(chunk_of(8, 1, A, 1)))

    assert batch is not None


@pytest.mark.parametrize("at", [0, 4, 5, 13, 30, 50, 60])
def test_a_record_with_a_changed_byte_is_damage(at: int) -> None:
    record = bytearray(chunk_of(7, 1, A, 0))
    record[at] ^= 0x10

    with pytest.raises(RecordDamaged):
        decode(bytes(record))


def test_a_record_that_is_cut_off_is_damage() -> None:
    record = chunk_of(7, 1, A, 0)
    for size in (0, 10, len(record) - 1):
        with pytest.raises(RecordDamaged):
            decode(record[:size])


def test_a_group_that_is_no_frame_is_damage() -> None:
    history = History()
    history.take(*decode(fence_of(1, A)))
    with pytest.raises(FrameDamaged, match="version is 9"):
        history.take(*decode(b"".join(encode(Header(RecordKind.CHUNK, 1, A), [b"\x09" + b"\0" * 20]))))


def export_of(epoch: int, owner: bytes) -> bytes:
    return b"".join(encode(Header(RecordKind.EXPORT, epoch, owner, 1), [b"host:/data"]))


def test_nothing_counts_after_an_export_not_even_a_fence() -> None:
    history = History()
    records = [fence_of(1, A), chunk_of(7, 1, A, 0), export_of(1, A), fence_of(2, B), chunk_of(8, 2, B, 0)]

    batches = [history.take(*decode(record)) for record in records]

    assert sum(batch is not None for batch in batches) == 1
    assert history.place == ReaderPosition(5, 1, A, 1, exported=True)
    assert history.exported_to == "host:/data"


def test_an_export_of_a_fenced_owner_does_not_count() -> None:
    assert taken(fence_of(1, A), fence_of(2, B), export_of(1, A), chunk_of(8, 2, B, 0)) == [8]


def test_the_claim_of_an_import_has_no_effect_on_the_epoch() -> None:
    claim = b"".join(encode(Header(RecordKind.IMPORT, 0, A), [b"store"]))

    assert taken(claim, fence_of(1, B), chunk_of(7, 1, B, 0)) == [7]
