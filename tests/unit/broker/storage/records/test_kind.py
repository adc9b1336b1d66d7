"""Keys of every kind tell what they are about, sort as their numbers do, and stand in the right spans."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.publish.writer import WINDOW
from forebay.broker.storage.records.epochs.epoch import EPOCH
from forebay.broker.storage.records.epochs.placing import PLACING
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.epochs.stage import STAGE
from forebay.broker.storage.records.epochs.stage_order import STAGE_ORDER
from forebay.broker.storage.records.epochs.staged_page import STAGED_PAGE
from forebay.broker.storage.records.kind import Kind, OfStore, Span, place_of
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE, key_of
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.held import HELD
from forebay.broker.storage.records.partitions.marks import MARKS
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.partitions.totals import TOTALS
from forebay.broker.storage.records.registry import BY_PREFIX, KINDS, OF_SINKS
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import SINK, SINK_COPY
from forebay.broker.storage.records.sinks.slot import SLOT
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.records.sinks.writer import WRITER

U32 = st.integers(0, 2**32 - 2)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=64)
PLACES = st.tuples(U32, U32, U64)
PARTS: Final[dict[str, tuple[st.SearchStrategy[Any], ...]]] = {
    **dict.fromkeys((SINK.name, SINK_COPY.name, PLACING.name), ()),
    **dict.fromkeys((WRITER.name, SUBSCRIPTION.name, PRODUCER.name), (NAMES,)),
    **dict.fromkeys((TAIL.name, HEAD.name, MARKS.name, RESERVE.name, HELD.name, SCHEMA.name), (U32,)),
    **dict.fromkeys((CURSOR.name, TOTALS.name), (NAMES, U32)),
    **dict.fromkeys((ENTRY.name, SMALL_PAGE.name, QUARANTINE.name), (U32, U64)),
    GAP.name: (U32, U64, st.text(max_size=20)),
    STAGE.name: (U64,),
    STAGED_PAGE.name: (U64, U32, U64),
    SLOT.name: (NAMES, U32, U64),
    EPOCH.name: (NAMES, U64),
    STAGE_ORDER.name: (NAMES, U64, U32),
}
"""Parts of the keys behind the sink."""
OTHERS: Final = {BULK_PAGE.name, DUE.name}
WITH_PARTS: Final = [kind for kind in KINDS if kind.name in PARTS]


def within(key: bytes, span: Span) -> bool:
    return span[0] <= key < span[1]


def test_every_kind_with_more_than_one_key_is_tried_here() -> None:
    assert set(PARTS) | OTHERS == {kind.name for kind in KINDS if not isinstance(kind, OfStore)}


@pytest.mark.parametrize("kind", WITH_PARTS, ids=lambda kind: kind.name)
@given(data=st.data(), sink=U32, other=U32)
def test_a_key_tells_its_sink_and_stands_in_the_spans_of_its_kind_and_sink_only(
    kind: Kind[Any], data: st.DataObject, sink: int, other: int
) -> None:
    key = kind.key(sink, *(data.draw(part) for part in PARTS[kind.name]))

    assert kind.sink_of(key) == sink
    if kind is not SINK_COPY:
        assert within(key, kind.of_sink(other)) == (sink == other)
    if kind.prefix:
        assert [each for each in BY_PREFIX.values() if within(key, each.all)] == [kind]
        assert [each for each in OF_SINKS if within(key, each.of_sink(sink))] == [kind]


@pytest.mark.parametrize("kind", [kind for kind in WITH_PARTS if kind.into is not None], ids=lambda kind: kind.name)
@given(data=st.data(), sink=U32)
def test_a_key_of_what_a_start_passes_on_tells_its_parts(kind: Kind[Any], data: st.DataObject, sink: int) -> None:
    parts = tuple(data.draw(part) for part in PARTS[kind.name])

    found = kind.within(kind.key(sink, *parts))

    assert (found if isinstance(found, tuple) else (found,)) == parts


@given(place=PLACES)
def test_keys_that_begin_with_a_partition_tell_it(place: tuple[int, int, int]) -> None:
    sink, partition, number = place
    due = DUE.key(sink, partition, bulk=True, first=number)

    for key in (TAIL.key(sink, partition), CURSOR.key(sink, "a", partition), GAP.key(*place), due):
        assert place_of(key) == (sink, partition)


@given(one=PLACES, other=PLACES)
def test_places_come_back_and_sort_as_their_numbers_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    key = ENTRY.key(*one)

    assert (ENTRY.sink_of(key), *ENTRY.within(key)) == one
    assert ENTRY.number_of(key) == one[2]
    assert (key < ENTRY.key(*other)) == (one < other)


@given(place=PLACES, bulk=st.booleans())
def test_the_key_of_a_page_is_that_of_its_family(place: tuple[int, int, int], *, bulk: bool) -> None:
    sink, partition, number = place
    key = key_of(sink, partition, number, bulk=bulk)

    if bulk:
        assert BULK_PAGE.within(key) == (number, sink, partition)
        assert within(key, (BULK_PAGE.key(number), BULK_PAGE.key(number, sink, partition + 1)))
    else:
        assert (SMALL_PAGE.sink_of(key), *SMALL_PAGE.within(key)) == place


@given(place=PLACES, first=st.integers(0, 2**63), size=st.integers(1, 2**62))
def test_a_span_of_places_holds_its_own_and_nothing_else(place: tuple[int, int, int], first: int, size: int) -> None:
    sink, partition, number = place

    inside = within(ENTRY.key(*place), ENTRY.between(sink, partition, first, first + size))

    assert inside == (first <= number < first + size)
    assert not within(ENTRY.key(sink + 1, partition, first), ENTRY.between(sink, partition, first, first + size))


@given(sink=U32, partition=U32, bulk=st.booleans(), first=U64, last=U64, size=U64)
def test_an_entry_of_the_ledger_comes_back(
    sink: int, partition: int, *, bulk: bool, first: int, last: int, size: int
) -> None:
    due = DUE.due(DUE.key(sink, partition, bulk=bulk, first=first), DUE.codec.encode((last, size)))

    assert due is not None
    assert (due.sink, due.partition, due.bulk, due.first, due.last, due.size) == (
        sink,
        partition,
        bulk,
        first,
        last,
        size,
    )
    assert DUE.due(DUE.key_of(due), b"noise") is None
    assert DUE.first_of(DUE.key_of(due)).last == first


@given(sink=U32, name=NAMES, other=NAMES, partition=st.integers(0, 2**32 - 1), sequence=U64)
def test_the_slots_of_a_writer_are_its_own(sink: int, name: str, other: str, partition: int, sequence: int) -> None:
    slot = SLOT.key(sink, other, partition, sequence)

    assert within(slot, SLOT.of_writer(sink, name)) == (name == other)
    assert SLOT.partition_of(slot) == partition


@given(sink=U32, name=NAMES, partition=U32, sequence=st.integers(0, 2**63))
def test_a_slot_takes_the_place_of_the_one_a_window_before_it(
    sink: int, name: str, partition: int, sequence: int
) -> None:
    slot = SLOT.key(sink, name, partition, sequence)

    assert SLOT.key(sink, name, partition, sequence + WINDOW) == slot
    assert SLOT.key(sink, name, partition, sequence + 1) != slot


@given(
    sink=U32, stage=st.integers(0, 2**63), numbers=st.tuples(*[st.integers(0, 2**63)] * 2), partition=U32, sequence=U64
)
def test_the_spans_of_stages_hold_those_between_two_numbers_with_their_pages_and_no_others(
    sink: int, stage: int, numbers: tuple[int, int], partition: int, sequence: int
) -> None:
    first, last = sorted(numbers)

    inside = first <= stage <= last
    assert within(STAGE.key(sink, stage), STAGE.between(sink, first, last)) == inside
    page = STAGED_PAGE.key(sink, stage, partition, sequence)
    assert within(page, STAGED_PAGE.of_stages(sink, first, last)) == inside


@given(sink=U32, name=NAMES, other=NAMES, number=U64, another=U64, partition=U32)
def test_the_span_of_the_stages_of_epochs_holds_those_of_a_producer_or_of_one_epoch(
    sink: int, name: str, other: str, number: int, another: int, partition: int
) -> None:
    key = STAGE_ORDER.key(sink, name, number, partition)

    assert within(key, STAGE_ORDER.of_producer(sink, other)) == (name == other)
    assert within(key, STAGE_ORDER.of_epoch(sink, other, another)) == ((name, number) == (other, another))


@given(sink=U32, name=NAMES, other=NAMES, number=U64, first=U64)
def test_the_span_of_a_producers_epochs_holds_its_own_from_a_number_on(
    sink: int, name: str, other: str, number: int, first: int
) -> None:
    inside = within(EPOCH.key(sink, name, number), EPOCH.from_number(sink, other, first))

    assert inside == (name == other and number >= first)
