"""Cutting deliveries into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch, BatchLimits
from forebay.deliver.batches.cutting import UnreadableRange, batches_of
from tests.support.targets.memory_source import MemoryDelivery, MemoryRecord, MemoryRun, records


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


@dataclass
class InRuns(MemoryDelivery):
    """A delivery whose records come in runs of given lengths, the last one as long as is left."""

    lengths: Sequence[int] = ()
    bound: int = 0
    taken: list[int] = field(default_factory=list)

    def runs(self) -> Iterator[MemoryRun]:
        first = 0
        for length in [*self.lengths, len(self.records)]:
            run = MemoryRun(self.records[first : first + length], self.bound)
            first += length
            if run.records:
                self.taken.append(len(run))
                yield run


SIZES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 3), st.sampled_from(["", "", "", "x", "y"])))


def record(offset: int, size: int, key: int | None, unreadable: str) -> MemoryRecord:
    return MemoryRecord(offset, b"v" * size, None if key is None else b"k" * key, unreadable=unreadable)


@given(SIZES, st.lists(st.integers(1, 4)), st.integers(1, 4), st.integers(1, 12), st.integers(0, 3))
def test_batches_do_not_depend_on_the_runs_in_which_the_records_come_nor_on_upper_bounds_of_their_bytes(
    sizes: list[tuple[int, int | None, str]], lengths: list[int], records_max: int, bytes_max: int, bound: int
) -> None:
    made = [record(offset, *one) for offset, one in enumerate(sizes)]
    limits = BatchLimits(records_max, bytes_max)

    found = list(batches_of("orders", InRuns(made, lengths=lengths, bound=bound), limits))

    assert found == list(batches_of("orders", InRuns(made, lengths=[1] * len(made)), limits))
    taken = [one for part in found if isinstance(part, Batch) for one in part.records]
    assert taken == [one for one in made if not one.unreadable]
    dead = [part for part in found if isinstance(part, UnreadableRange)]
    assert sum(part.last_offset - part.first_offset + 1 for part in dead) == len(made) - len(taken)
    for part in found:
        if isinstance(part, Batch):
            size = sum(len(one.value) + len(one.key or b"") for one in part.records)
            assert len(part) == 1 or (len(part) <= records_max and size <= bytes_max)


def test_a_batch_takes_one_run_more_than_it_needs_at_most() -> None:
    delivery = InRuns(records(9), lengths=[2] * 4)

    next(batches_of("orders", delivery, BatchLimits(records_max=3)))

    assert delivery.taken == [2, 2]


@dataclass(frozen=True, slots=True)
class Counted(MemoryRun):
    """A run that counts how often its records are measured."""

    measured: list[int] = field(default_factory=list)

    def sizes(self) -> list[int]:
        self.measured.append(len(self))
        return [len(record.value) for record in self.records]

    def bytes_at_most(self) -> int:
        return 10 * len(self)


@dataclass
class InOneRun(MemoryDelivery):
    """A delivery of one run."""

    run: MemoryRun = field(default_factory=lambda: MemoryRun([]))

    def runs(self) -> Iterator[MemoryRun]:
        yield self.run


def test_the_records_of_a_run_that_is_cut_by_bytes_are_measured_once() -> None:
    run = Counted(records(1000))

    found = list(batches_of("orders", InOneRun([], run=run), BatchLimits(bytes_max=40)))

    assert len(found) == 100
    assert run.measured == [1000]


def test_the_records_of_a_run_that_is_cut_by_their_number_are_not_measured() -> None:
    run = Counted(records(1000))

    found = list(batches_of("orders", InOneRun([], run=run), BatchLimits(records_max=300, bytes_max=10_000)))

    assert spans(found) == [(0, 299), (300, 599), (600, 899), (900, 999)]
    assert run.measured == []
