"""Keys of every kind contain their parts, sort as their numbers do, and are in the right spans."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forebay.broker.core.writes import Due
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER, epochs_from
from forebay.broker.storage.records.epochs.stage import STAGE, STAGED_PAGE
from forebay.broker.storage.records.key_layout import KeyLayout, Span
from forebay.broker.storage.records.kind import Kind, place_of
from forebay.broker.storage.records.pages.due import DUE, due_of, first_due, span_of
from forebay.broker.storage.records.pages.entry import ENTRY, base_of
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE, bulk_from, key_of
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.records.registry import BY_PREFIX, KINDS, OF_SINKS
from forebay.broker.storage.records.sinks.writer import SLOT

U32 = st.integers(0, 2**32 - 2)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.sampled_from("abcXYZ019._-ü"), min_size=1, max_size=64)
PLACES = st.tuples(U32, U32, U64)
PARTS: Final = {
    "u8": st.integers(0, 1),
    "u16": st.integers(0, 2**16 - 1),
    "u32": U32,
    "u64": U64,
    "text": NAMES,
}


def parts_of(kind: KeyLayout) -> st.SearchStrategy[tuple[Any, ...]]:
    """Parts of keys, by their layout."""
    return st.tuples(*(PARTS[part.split()[1]] for part in kind.layout.split(", ") if part))


def within(key: bytes, span: Span) -> bool:
    return span[0] <= key < span[1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(data=st.data())
def test_a_key_contains_its_parts(kind: Kind[Any], data: st.DataObject) -> None:
    parts = data.draw(parts_of(kind))

    assert kind.parts(kind.key(*parts)) == parts
    assert kind.key(*parts).startswith(kind.prefix)
    assert len(kind.names) == len(parts)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.of_store and kind is not POSITION], ids=lambda kind: kind.name
)
@given(data=st.data())
def test_a_key_is_in_the_spans_of_its_first_parts_and_no_others(kind: Kind[Any], data: st.DataObject) -> None:
    parts, others = data.draw(parts_of(kind)), data.draw(parts_of(kind))
    count = data.draw(st.integers(1, len(parts)))
    assume(others[count - 1] != 2**64 - 1)  # there is no key after it
    assume(count < len(parts) or not isinstance(others[-1], str))  # a name may be the beginning of another one

    assert within(kind.key(*parts), kind.under(*others[:count])) == (parts[:count] == others[:count])


@pytest.mark.parametrize("kind", OF_SINKS, ids=lambda kind: kind.name)
@given(data=st.data())
def test_a_key_of_a_sink_is_in_the_span_of_its_kind_and_sink_only(kind: Kind[Any], data: st.DataObject) -> None:
    parts = data.draw(parts_of(kind))
    key = kind.key(*parts)

    assert kind.sink_of(key) == parts[0]
    assert [each for each in BY_PREFIX.values() if within(key, each.under())] == [kind]
    assert [each for each in OF_SINKS if within(key, each.under(parts[0]))] == [kind]


@given(place=PLACES)
def test_keys_that_begin_with_a_partition_contain_it(place: tuple[int, int, int]) -> None:
    sink, partition, number = place
    due = DUE.key(sink, partition, 1, number)

    for key in (TAIL.key(sink, partition), CURSOR.key(sink, partition, "a"), GAP.key(*place, ""), due):
        assert place_of(key) == (sink, partition)


@given(one=PLACES, other=PLACES)
def test_places_sort_as_their_numbers_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (ENTRY.key(*one) < ENTRY.key(*other)) == (one < other)
    assert base_of(ENTRY.key(*one)) == one[2]


@given(place=PLACES, bulk=st.booleans())
def test_the_key_of_a_page_is_that_of_its_family(place: tuple[int, int, int], *, bulk: bool) -> None:
    sink, partition, number = place
    key = key_of(sink, partition, number, bulk=bulk)

    if bulk:
        assert BULK_PAGE.parts(key) == (number, sink, partition)
        assert bulk_from(number) <= key
    else:
        assert SMALL_PAGE.parts(key) == place


@given(place=PLACES, first=st.integers(0, 2**63), size=st.integers(1, 2**62))
def test_a_span_of_places_holds_its_own_and_nothing_else(place: tuple[int, int, int], first: int, size: int) -> None:
    sink, partition, number = place
    span = ENTRY.between(sink, partition, first=first, end=first + size)

    assert within(ENTRY.key(*place), span) == (first <= number < first + size)
    assert not within(ENTRY.key(sink + 1, partition, first), span)


@given(sink=U32, partition=U32, bulk=st.booleans(), first=st.integers(0, 2**63), last=st.integers(0, 2**63), size=U64)
def test_an_entry_of_the_ledger_round_trips(
    sink: int, partition: int, *, bulk: bool, first: int, last: int, size: int
) -> None:
    due = Due(sink, partition, bulk, first, max(first, last), size)
    key = DUE.key(sink, partition, bulk, first)

    assert due_of(key, DUE.codec.encode(due)) == due
    assert due_of(key, b"noise") is None
    assert first_due(*DUE.parts(key)) == Due(sink, partition, bulk, first, first, 0)
    assert within(key_of(sink, partition, due.last, bulk=bulk), span_of(due))
    assert not within(key_of(sink, partition, due.last + 1, bulk=bulk), span_of(due))


@given(sink=U32, name=NAMES, other=NAMES, partition=st.integers(0, 2**32 - 1), place=st.integers(0, 2**16 - 1))
def test_the_slots_of_a_writer_are_its_own(sink: int, name: str, other: str, partition: int, place: int) -> None:
    assert within(SLOT.key(sink, other, partition, place), SLOT.under(sink, name)) == (name == other)


@given(
    sink=U32, stage=st.integers(0, 2**63), numbers=st.tuples(*[st.integers(0, 2**63)] * 2), partition=U32, sequence=U64
)
def test_the_spans_of_stages_hold_those_between_two_numbers_with_their_pages_and_no_others(
    sink: int, stage: int, numbers: tuple[int, int], partition: int, sequence: int
) -> None:
    first, last = sorted(numbers)

    inside = first <= stage <= last
    assert within(STAGE.key(sink, stage), STAGE.between(sink, first=first, end=last + 1)) == inside
    page = STAGED_PAGE.key(sink, stage, partition, sequence)
    assert within(page, STAGED_PAGE.between(sink, first=first, end=last + 1)) == inside


@given(sink=U32, name=NAMES, other=NAMES, number=U64, another=U64, partition=st.integers(0, 2**32 - 1))
def test_the_span_of_the_stages_of_epochs_holds_those_of_a_producer_or_of_one_epoch(
    sink: int, name: str, other: str, number: int, another: int, partition: int
) -> None:
    key = STAGE_ORDER.key(sink, name, number, partition)

    assert within(key, STAGE_ORDER.under(sink, other)) == (name == other)
    assert within(key, STAGE_ORDER.under(sink, other, another)) == ((name, number) == (other, another))


@given(sink=U32, name=NAMES, other=NAMES, number=U64, first=U64)
def test_the_span_of_a_producers_epochs_holds_its_own_from_a_number_on(
    sink: int, name: str, other: str, number: int, first: int
) -> None:
    inside = within(EPOCH.key(sink, name, number), epochs_from(sink, other, first))

    assert inside == (name == other and number >= first)
