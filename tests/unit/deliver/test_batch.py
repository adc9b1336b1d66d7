"""Cutting deliveries into batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch, BatchLimits
from forebay.deliver.batch import UnreadableRange, batches_of
from tests.support.targets.memory_source import MemoryDelivery, MemoryRecord, records


def spans(batches: Sequence[Batch | UnreadableRange]) -> list[tuple[int, int]]:
    """Return first and last offset of each batch."""
    return [(batch.first_offset, batch.last_offset) for batch in batches]


def test_batches_are_cut_by_records() -> None:
    batches = list(batches_of("orders", MemoryDelivery(records(7)), BatchLimits(records_max=3)))

    assert spans(batches) == [(0, 2), (3, 5), (6, 6)]


def test_batches_are_cut_by_bytes_and_a_larger_record_goes_alone() -> None:
    sizes = [40, 40, 40, 500, 10, 10]
    delivery = MemoryDelivery([MemoryRecord(i, b"x" * size) for i, size in enumerate(sizes)])

    batches = list(batches_of("orders", delivery, BatchLimits(bytes_max=100)))

    assert spans(batches) == [(0, 1), (2, 2), (3, 3), (4, 5)]


def test_a_hole_in_the_offsets_begins_a_new_batch() -> None:
    delivery = MemoryDelivery([*records(3), *records(2, first=7)])

    assert spans(list(batches_of("orders", delivery, BatchLimits()))) == [(0, 2), (7, 8)]


def test_records_that_cannot_be_decoded_are_between_the_batches() -> None:
    bad = [MemoryRecord(offset, b"", unreadable=why) for offset, why in ((2, "x"), (3, "x"), (4, "y"), (7, "y"))]
    delivery = MemoryDelivery([*records(2), *bad[:3], *records(2, first=5), bad[3]])

    found = list(batches_of("orders", delivery, BatchLimits()))

    assert spans(found) == [(0, 1), (2, 3), (4, 4), (5, 6), (7, 7)]
    assert [part.reason for part in found if isinstance(part, UnreadableRange)] == ["x", "y", "y"]


def test_an_empty_delivery_has_no_batch() -> None:
    assert list(batches_of("orders", MemoryDelivery([]), BatchLimits())) == []


def test_keys_name_batch_and_records() -> None:
    (batch,) = batches_of("orders", MemoryDelivery(records(3, first=5), partition=2, incarnation="ab"), BatchLimits())

    assert isinstance(batch, Batch)
    assert batch.key == "ab-2-5-7"
    assert batch.record_key(6) == "ab-2-6"


def test_a_part_below_an_offset_is_what_is_not_void() -> None:
    batch = Batch("orders", "ab", 0, tuple(records(4, first=10)))

    assert batch.below(14) is batch
    assert batch.below(10) is None
    assert batch.below(3) is None
    part = batch.below(12)
    assert part is not None
    assert spans([part]) == [(10, 11)]


@given(st.integers(2, 50))
def test_halves_are_the_whole(count: int) -> None:
    batch = Batch("orders", "ab", 0, tuple(records(count)))

    first, second = batch.halves()

    assert first.records + second.records == batch.records
    assert abs(len(first) - len(second)) <= 1


@pytest.mark.parametrize("name", ["records_max", "bytes_max"])
def test_limits_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 0"):
        BatchLimits(**{name: 0})


def test_the_tighter_limit_counts() -> None:
    tight = BatchLimits(records_max=10, bytes_max=1000).within(BatchLimits(records_max=1, bytes_max=5000))

    assert tight == BatchLimits(records_max=1, bytes_max=1000)
