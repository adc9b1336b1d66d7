from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.publish.writer import WINDOW
from forebay.broker.storage.records import keys

U32 = st.integers(0, 2**32 - 2)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=64)
PLACES = st.tuples(U32, U32, U64)
KINDS = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, bytes)]


def within(key: bytes, span: keys.Span) -> bool:
    return span[0] <= key < span[1]


def test_no_two_kinds_share_their_first_byte() -> None:
    assert len(KINDS) == len(set(KINDS)) == 28
    assert {len(kind) for kind in KINDS} == {1}


@given(one=PLACES, other=PLACES)
def test_places_come_back_and_sort_as_their_numbers_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert keys.place_of(keys.place(*one)) == one
    assert (keys.place(*one) < keys.place(*other)) == (one < other)


@given(place=PLACES, first=st.integers(0, 2**63), size=st.integers(1, 2**62))
def test_a_span_of_places_holds_its_own_and_nothing_else(place: tuple[int, int, int], first: int, size: int) -> None:
    sink, partition, number = place

    inside = within(keys.place(*place), keys.places(sink, partition, first, first + size))

    assert inside == (first <= number < first + size)
    assert not within(keys.place(sink + 1, partition, first), keys.places(sink, partition, first, first + size))


@given(place=PLACES, sink=U32)
def test_the_span_of_a_sink_holds_its_own_and_nothing_else(place: tuple[int, int, int], sink: int) -> None:
    assert within(keys.place(*place), keys.of_sink(sink)) == (place[0] == sink)
    for kind in keys.OF_SINKS:
        assert within(keys.gap(*place), keys.of_sink(sink, kind)) == (place[0] == sink and kind == keys.GAP)


@given(sink=U32, partition=U32, name=NAMES)
def test_keys_of_meta_say_what_they_are_about(sink: int, partition: int, name: str) -> None:
    assert keys.sink_of(keys.sink(sink)) == sink
    assert keys.partition_of(keys.partition(keys.TAIL, sink, partition)) == (sink, partition)
    assert keys.cursor_of(keys.cursor(sink, name, partition)) == (sink, name, partition)
    assert keys.cursor_of(keys.totals(sink, name, partition)) == (sink, name, partition)
    assert keys.writer_of(keys.writer(sink, name)) == (sink, name)
    assert keys.sink_of(keys.subscription(sink, name)) == sink
    assert keys.schema_of(keys.schema(sink, partition)) == (sink, partition)


@given(sink=U32, partition=U32, bulk=st.booleans(), first=U64)
def test_a_key_of_the_ledger_says_what_is_due(sink: int, partition: int, *, bulk: bool, first: int) -> None:
    assert keys.due_of(keys.due(sink, partition, bulk=bulk, first=first)) == (sink, partition, bulk, first)


@given(
    sink=U32,
    name=NAMES,
    other=NAMES,
    partition=st.integers(0, 2**32 - 1),
    sequence=U64,
)
def test_the_slots_of_a_writer_are_its_own(sink: int, name: str, other: str, partition: int, sequence: int) -> None:
    slot = keys.slot(sink, other, partition, sequence)

    assert within(slot, keys.slots(sink, name)) == (name == other)
    assert keys.slot_partition(slot) == partition
    assert within(slot, keys.of_sink(sink, keys.SLOT))


@given(sink=U32, name=NAMES, partition=U32, sequence=st.integers(0, 2**63))
def test_a_slot_takes_the_place_of_the_one_a_window_before_it(
    sink: int, name: str, partition: int, sequence: int
) -> None:
    slot = keys.slot(sink, name, partition, sequence)

    assert keys.slot(sink, name, partition, sequence + WINDOW) == slot
    assert keys.slot(sink, name, partition, sequence + 1) != slot


@given(place=PLACES)
def test_every_key_stands_in_the_span_of_its_kind(place: tuple[int, int, int]) -> None:
    sink, partition, number = place
    made = {
        keys.SINK: keys.sink(sink),
        keys.TAIL: keys.partition(keys.TAIL, sink, partition),
        keys.HEAD: keys.partition(keys.HEAD, sink, partition),
        keys.CURSOR: keys.cursor(sink, "default", partition),
        keys.WRITER: keys.writer(sink, "w"),
        keys.SLOT: keys.slot(sink, "w", partition, number),
        keys.GAP: keys.gap(sink, partition, number),
        keys.DUE: keys.due(sink, partition, bulk=True, first=number),
        keys.QUARANTINE: keys.quarantine(sink, partition, number),
        keys.SUBSCRIPTION: keys.subscription(sink, "audit"),
        keys.TOTALS: keys.totals(sink, "audit", partition),
        keys.MARKS: keys.partition(keys.MARKS, sink, partition),
        keys.SCHEMA: keys.schema(sink, partition),
    }

    for kind in KINDS:
        assert [of for of, key in made.items() if within(key, keys.of_kind(kind))] == [kind] * (kind in made)


@given(place=PLACES, subscription=st.text(max_size=20))
def test_a_gap_s_key_names_its_offset_and_whose_it_is(place: tuple[int, int, int], subscription: str) -> None:
    sink, partition, first = place

    key = keys.gap(sink, partition, first, subscription)

    assert keys.gap_of(key) == (first, subscription)
    assert keys.partition_of(key) == (sink, partition)
    assert within(key, keys.of_sink(sink, keys.GAP))


@given(sink=U32, stage=U64, partition=U32, sequence=U64)
def test_keys_of_stages_say_what_they_are_about(sink: int, stage: int, partition: int, sequence: int) -> None:
    key = keys.staged(sink, stage, partition, sequence)

    assert keys.staged_of(key) == (stage, partition, sequence)
    assert keys.stage_of(key) == keys.stage_of(keys.stage(sink, stage)) == stage
    assert keys.sink_of(key) == keys.sink_of(keys.stage(sink, stage)) == sink
    assert within(key, keys.of_sink(sink, keys.STAGED))


@given(
    sink=U32, stage=st.integers(0, 2**63), numbers=st.tuples(*[st.integers(0, 2**63)] * 2), partition=U32, sequence=U64
)
def test_the_spans_of_stages_hold_those_between_two_numbers_with_their_pages_and_no_others(
    sink: int, stage: int, numbers: tuple[int, int], partition: int, sequence: int
) -> None:
    first, last = sorted(numbers)
    stages, pages = keys.stages(sink, first, last)

    inside = first <= stage <= last
    assert within(keys.stage(sink, stage), stages) == inside
    assert within(keys.staged(sink, stage, partition, sequence), pages) == inside


@given(sink=U32, name=NAMES, other=NAMES, number=U64, another=U64, partition=U32)
def test_the_span_of_the_stages_of_epochs_holds_those_of_a_producer_or_of_one_epoch(
    sink: int, name: str, other: str, number: int, another: int, partition: int
) -> None:
    key = keys.epoch_stages(sink, name, number, partition)

    assert within(key, keys.all_epoch_stages(sink, other)) == (name == other)
    assert within(key, keys.all_epoch_stages(sink, other, another)) == ((name, number) == (other, another))
    assert within(key, keys.of_sink(sink, keys.EPOCH_STAGES))


@given(sink=U32, name=NAMES, other=NAMES, number=U64, first=U64)
def test_the_span_of_a_producers_epochs_holds_its_own_from_a_number_on(
    sink: int, name: str, other: str, number: int, first: int
) -> None:
    inside = within(keys.epoch(sink, name, number), keys.epochs(sink, other, first))

    assert inside == (name == other and number >= first)
    assert keys.writer_of(keys.producer(sink, name)) == (sink, name)
