"""A batch and its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch, BatchLimits
from forebay.deliver.batches.cutting import batches_of
from forebay.deliver.batches.records import BatchRecords
from tests.support.targets.memory_source import MemoryDelivery, MemoryRun, records


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
    assert (part.first_offset, part.last_offset) == (10, 11)


def test_a_part_from_an_offset_on_is_what_follows() -> None:
    batch = Batch("orders", "ab", 0, tuple(records(4, first=10)))

    assert batch.from_offset(10) is batch
    assert batch.from_offset(3) is batch
    assert batch.from_offset(14) is None
    part = batch.from_offset(12)
    assert part is not None
    assert (part.first_offset, part.last_offset) == (12, 13)


@given(st.integers(2, 50))
def test_halves_are_the_whole(count: int) -> None:
    batch = Batch("orders", "ab", 0, tuple(records(count)))

    first, second = batch.halves()

    assert [*first.records, *second.records] == list(batch.records)
    assert abs(len(first) - len(second)) <= 1


def test_a_batch_of_columns_has_the_offsets_and_values_of_one_of_records() -> None:
    made = records(4, first=10)
    columns, plain = (
        Batch("orders", "ab", 0, given) for given in (BatchRecords([MemoryRun(made[:1]), MemoryRun(made[1:])]), made)
    )

    assert (columns.first_offset, columns.last_offset, columns.values) == (10, 13, [one.value for one in made])
    assert (plain.first_offset, plain.last_offset, plain.values) == (10, 13, [one.value for one in made])
    assert columns.key == plain.key
    assert [len(part) for part in columns.halves()] == [2, 2]
    assert columns.after(3).first_offset == 13
    assert columns.only(2).values == [made[2].value]


def test_a_batch_of_columns_has_the_stored_pages_with_its_own_ranges() -> None:
    made = records(5, first=10)
    batch = Batch("orders", "ab", 0, BatchRecords([MemoryRun(made[:2]), MemoryRun(made[2:])]))

    assert [(page.first_offset, page.last_offset) for page in batch.pages] == [(10, 11), (12, 14)]
    assert [(page.first_offset, page.last_offset) for page in batch.after(1).pages] == [(11, 11), (12, 14)]
    assert Batch("orders", "ab", 0, made).pages == []
