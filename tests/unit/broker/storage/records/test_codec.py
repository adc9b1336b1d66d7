from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.epochs.values import EpochPart, EpochRecord, ProducerRecord, StagedPage, StagePart, StageRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import TRACES_MAX, DropReason, Entry, Gap, Part
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Mark
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS, SinkSettings
from forebay.broker.core.writes import PutAge, SchemaRecord, SinkRecord, SubscriptionRecord
from forebay.broker.storage.records import codec

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=20)
TAILS = st.builds(Tail, U64, U64, U64, I64, I64)
DROPS = st.lists(st.tuples(st.integers(0, 255), U64), max_size=10).map(tuple)
HEADS = st.builds(Head, U64, U64, U64, U64, DROPS)
CURSORS = st.builds(
    Cursor,
    start=U64,
    watermark=U64,
    beyond=st.lists(st.builds(Range, U64, U64), max_size=5).map(tuple),
    acked=U64,
    dead_lettered=U64,
    dropped=U64,
    skipped=U64,
    attempts=st.lists(st.tuples(U64, U32), max_size=5).map(tuple),
    told=U64,
    sent=U64,
)
SLOTS = st.builds(Slot, U64, U32, U64, U32)
GAPS = st.builds(Gap, U64, U64, st.sampled_from(DropReason), I64, U64, U32, at_most=st.booleans())
HELD = st.lists(st.builds(Held, U64, U64, U64, U32), max_size=5).map(tuple)
RESERVES = st.builds(Reserve, U64, st.none() | st.integers(0, 2**63 - 1))
MERGED_GAPS = st.builds(
    Gap,
    *(U64, U64, st.sampled_from(DropReason), I64, U64, U32, I64),
    merged=st.lists(st.tuples(st.integers(0, 255), U64), min_size=1, max_size=10).map(tuple),
    detail=TEXTS,
)
MERGED = Gap(1, 9, DropReason.PURGED, 3, 4, 5, since_us=2, merged=((1, 3), (4, 2)))
REJECTION = Gap(1, 2, DropReason.REJECTED_BY_TARGET, 3, 0, 0, subscription="audit", detail="no such column")
ENTRIES = st.builds(
    Entry,
    base=st.integers(0, 2**63),
    count=U32,
    number=U64,
    bulk=st.booleans(),
    size=U64,
    encoding=st.integers(0, 255),
    accepted_at_us=I64,
    age_us=I64,
    bytes_before=U64,
    pages_before=U64,
    parts=st.just(()),
)
SINKS = st.builds(
    SinkRecord,
    id=U32,
    name=TEXTS,
    incarnation=TEXTS,
    settings=st.builds(SinkSettings, max_disk_cache=U64, realtime=st.booleans(), retry_backoff_factor=st.floats(1, 10)),
    created_at_us=I64,
    paused=st.none() | TEXTS,
)

SUBSCRIPTIONS = st.builds(
    SubscriptionRecord,
    name=TEXTS,
    created_at_us=I64,
    start=st.builds(
        Position, st.sampled_from(At), number=I64, offsets=st.lists(st.tuples(U32, U64), max_size=3).map(tuple)
    ),
    incarnation=U64.map("{:016x}".format),
)
TOTALS = st.builds(Totals, U64, U64, U64, U64, U64)
MARKS = st.lists(st.builds(Mark, U64, I64), max_size=5).map(tuple)

SAMPLES: list[tuple[bytes, Callable[[bytes], Any]]] = [
    (codec.encode_number(7), codec.decode_number),
    (codec.encode_text("abc"), codec.decode_text),
    (codec.encode_sink(SinkRecord(1, "orders", "abc", DEFAULTS, 7)), codec.decode_sink),
    (codec.encode_tail(Tail(1, 2, 3, 4, 5)), codec.decode_tail),
    (codec.encode_head(Head(1, 2, 3, 4, ((1, 5),))), codec.decode_head),
    (codec.encode_cursor(Cursor(beyond=(Range(1, 2),), attempts=((3, 4),))), codec.decode_cursor),
    (codec.encode_slot(1, Slot(1, 2, 3, 4)), codec.decode_slot),
    (codec.encode_gap(Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5)), lambda value: codec.decode_gap(1, value)),
    (codec.encode_gap(MERGED), lambda value: codec.decode_gap(1, value)),
    (codec.encode_gap(REJECTION), lambda value: codec.decode_gap(1, value, "audit")),
    (codec.encode_due(1, 2), codec.decode_due),
    (codec.encode_age(PutAge(1, 2, b"a boot", 3)), codec.decode_age),
    (
        codec.encode_subscription(SubscriptionRecord("a", 7, Position(At.OFFSETS, offsets=((0, 1),)))),
        codec.decode_subscription,
    ),
    (codec.encode_totals(Totals(1, 2, 3, 4, 5)), codec.decode_totals),
    (codec.encode_schema(SchemaRecord(3, 7, b"arrow", "{}")), lambda value: codec.decode_schema(3, value)),
    (codec.encode_marks((Mark(1, 2), Mark(3, 4))), codec.decode_marks),
    (
        codec.encode_entry(Entry(5, 2, 7, True, 8, 1, 9, 10, 11, 12, (Part(5, 9, "trace"), Part(6, 9)))),
        lambda value: codec.decode_entry(5, value),
    ),
]
"""One stored value of each kind, and what reads it."""
IDS = [
    "number",
    "text",
    "sink",
    "tail",
    "head",
    "cursor",
    "slot",
    "gap",
    "merged gap",
    "rejection",
    "due",
    "age",
    "subscription",
    "totals",
    "schema",
    "marks",
    "entry",
]


@given(gap=GAPS | MERGED_GAPS, subscription=TEXTS)
def test_gaps_of_everybody_and_of_one_subscription_come_back(gap: Gap, subscription: str) -> None:
    own = dataclasses.replace(gap, subscription=subscription)

    assert codec.decode_gap(gap.first, codec.encode_gap(own), subscription) == own


def test_a_gap_of_one_drop_is_stored_as_it_always_was() -> None:
    plain = codec.encode_gap(Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5))

    assert plain == sealed(struct.pack(">QBqQI", 2, 1, 3, 4, 5))


@given(number=U64, text=TEXTS)
def test_numbers_and_texts_come_back(number: int, text: str) -> None:
    assert codec.decode_number(codec.encode_number(number)) == number
    assert codec.decode_text(codec.encode_text(text)) == text


@given(sink=SINKS)
def test_sinks_come_back(sink: SinkRecord) -> None:
    assert codec.decode_sink(codec.encode_sink(sink)) == sink


@given(tail=TAILS, head=HEADS)
def test_tails_and_heads_come_back(tail: Tail, head: Head) -> None:
    assert codec.decode_tail(codec.encode_tail(tail)) == tail
    assert codec.decode_head(codec.encode_head(head)) == head


@given(cursor=CURSORS)
def test_cursors_come_back(cursor: Cursor) -> None:
    assert codec.decode_cursor(codec.encode_cursor(cursor)) == cursor


@given(epoch=U64, slot=SLOTS, gap=GAPS, last=U64, size=U64)
def test_slots_gaps_and_what_is_due_come_back(epoch: int, slot: Slot, gap: Gap, last: int, size: int) -> None:
    assert codec.decode_slot(codec.encode_slot(epoch, slot)) == (epoch, slot)
    assert codec.decode_gap(gap.first, codec.encode_gap(gap)) == gap
    assert codec.decode_due(codec.encode_due(last, size)) == (last, size)


def test_an_age_of_a_store_of_before_knows_no_boot() -> None:
    assert codec.decode_age(codec.encode_due(11, 22)) == PutAge(11, 22)


@given(reserve=RESERVES, held=HELD)
def test_what_is_reserved_and_what_only_memory_holds_come_back(reserve: Reserve, held: tuple[Held, ...]) -> None:
    assert codec.decode_reserve(codec.encode_reserve(reserve)) == reserve
    assert codec.decode_held(codec.encode_held(held)) == held


@given(subscription=SUBSCRIPTIONS, totals=TOTALS, marks=MARKS)
def test_subscriptions_totals_and_marks_come_back(
    subscription: SubscriptionRecord, totals: Totals, marks: tuple[Mark, ...]
) -> None:
    assert codec.decode_subscription(codec.encode_subscription(subscription)) == subscription
    assert codec.decode_totals(codec.encode_totals(totals)) == totals
    assert codec.decode_marks(codec.encode_marks(marks)) == marks


@given(made_at_us=I64)
def test_a_subscription_of_a_store_of_before_has_the_same_incarnation_at_each_start(made_at_us: int) -> None:
    start = {"at": 1, "number": 0, "offsets": []}
    stored = sealed(json.dumps({"name": "audit", "created_at_us": made_at_us, "start": start}).encode())

    found = codec.decode_subscription(stored)

    assert found == codec.decode_subscription(stored)
    assert 0 <= int(found.incarnation[:12], 16) < 1 << 48


@given(schema=st.builds(SchemaRecord, U32, I64, st.binary(max_size=40), TEXTS))
def test_schemas_come_back(schema: SchemaRecord) -> None:
    assert codec.decode_schema(schema.version, codec.encode_schema(schema)) == schema


@given(entry=ENTRIES, parts=st.lists(st.tuples(U32, I64, st.text("0123456789abcdef-", max_size=55)), max_size=20))
def test_entries_come_back_and_keep_the_first_traces(entry: Entry, parts: list[tuple[int, int, str]]) -> None:
    whole = tuple(Part(entry.base + first, at_us, trace) for first, at_us, trace in parts)

    found = codec.decode_entry(entry.base, codec.encode_entry(dataclasses.replace(entry, parts=whole)))

    kept = tuple(
        part if index < TRACES_MAX else dataclasses.replace(part, traceparent="") for index, part in enumerate(whole)
    )
    assert found == dataclasses.replace(entry, parts=kept)


@pytest.mark.parametrize(("value", "decode"), SAMPLES, ids=IDS)
def test_no_bit_can_flip_unnoticed(value: bytes, decode: Callable[[bytes], Any]) -> None:
    for place in range(len(value)):
        flipped = value[:place] + bytes([value[place] ^ 0x10]) + value[place + 1 :]
        with pytest.raises(codec.Undecodable):
            decode(flipped)


@pytest.mark.parametrize(("value", "decode"), SAMPLES, ids=IDS)
def test_what_was_cut_off_is_noticed(value: bytes, decode: Callable[[bytes], Any]) -> None:
    for length in range(len(value)):
        with pytest.raises(codec.Undecodable):
            decode(value[:length])


def sealed(content: bytes, version: int = 1) -> bytes:
    return struct.pack(">IB", zlib.crc32(content), version) + content


@pytest.mark.parametrize(("value", "decode"), SAMPLES, ids=IDS)
@given(at=st.integers(0, 300), byte=st.integers(0, 255))
def test_a_wrong_byte_under_a_good_checksum_is_told_or_changes_the_value(
    value: bytes, decode: Callable[[bytes], Any], at: int, byte: int
) -> None:
    content = bytearray(value[5:])
    content[at % len(content)] = byte
    try:
        decode(sealed(bytes(content)))
    except codec.Undecodable:
        return


@pytest.mark.parametrize(("value", "decode"), SAMPLES, ids=IDS)
def test_a_layout_of_another_version_is_not_guessed_at(value: bytes, decode: Callable[[bytes], Any]) -> None:
    with pytest.raises(codec.Undecodable, match="layout 2"):
        decode(sealed(value[5:], version=2))


@pytest.mark.parametrize(("value", "decode"), [sample for sample in SAMPLES if sample[1] is not codec.decode_text])
def test_a_sealed_value_that_is_too_short_is_not_guessed_at(value: bytes, decode: Callable[[bytes], Any]) -> None:
    with pytest.raises(codec.Undecodable):
        decode(sealed(value[5:-1]))
    with pytest.raises(codec.Undecodable):
        decode(sealed(b""))


def test_a_reason_that_this_version_does_not_know_is_not_guessed_at() -> None:
    content = bytearray(codec.encode_gap(Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5))[5:])
    content[8] = 99

    with pytest.raises(codec.Undecodable):
        codec.decode_gap(1, sealed(bytes(content)))


def stored_sink(**changes: Any) -> bytes:
    """A sink as another version may have stored it."""
    fields = dataclasses.asdict(SinkRecord(1, "orders", "abc", DEFAULTS, 7))
    fields["settings"] |= changes
    return sealed(json.dumps(fields).encode())


def test_settings_of_a_later_version_are_left_out() -> None:
    assert codec.decode_sink(stored_sink(unheard_of=5, max_disk_cache=9)).settings == SinkSettings(max_disk_cache=9)


@pytest.mark.parametrize("value", ["ten", None, [1], {"a": 1}, 1.5])
def test_a_setting_of_another_type_is_left_for_the_correction(value: Any) -> None:
    settings = codec.decode_sink(stored_sink(max_disk_cache=value, partitions=3)).settings

    assert (settings.max_disk_cache, settings.partitions) == (value, 3)
    assert settings.corrected()[0] == dataclasses.replace(DEFAULTS, partitions=3)


@pytest.mark.parametrize("settings", [5, "x", None, [{}]])
def test_settings_that_are_none_at_all_are_the_defaults_and_told(settings: Any) -> None:
    fields = dataclasses.asdict(SinkRecord(1, "orders", "abc", DEFAULTS, 7)) | {"settings": settings}

    found = codec.decode_sink(sealed(json.dumps(fields).encode()))

    mended, wrong = found.settings.corrected()
    assert (found.name, mended, len(wrong)) == ("orders", DEFAULTS, 1)


def test_settings_that_an_earlier_version_did_not_have_take_their_default() -> None:
    value = sealed(json.dumps({"id": 1, "name": "a", "incarnation": "b", "settings": {}, "created_at_us": 7}).encode())

    assert codec.decode_sink(value) == SinkRecord(1, "a", "b", DEFAULTS, 7)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"settings": {}}', b"\xff", b'{"settings": 5}', b"null"])
def test_what_is_no_sink_is_not_guessed_at(content: bytes) -> None:
    with pytest.raises(codec.Undecodable):
        codec.decode_sink(sealed(content))


U63 = st.integers(0, 2**63 - 1)
STAGES = st.builds(StageRecord, U64, TEXTS, TEXTS, U63, TEXTS, TEXTS, U64)
STAGED = st.builds(StagedPage, U64, st.booleans(), st.integers(0, 255), U32, U32, U32, TEXTS)
LAST = (TEXTS, I64, TEXTS, st.none() | U63, TEXTS, TEXTS, TEXTS)
PRODUCERS = st.builds(ProducerRecord, TEXTS, TEXTS, TEXTS, U64, st.none() | U63, *LAST)
PARTS = st.builds(EpochPart, U32, U64, U64, U32, U64, U64, U64)
PLACES = st.lists(PARTS, max_size=5).map(tuple)
EPOCHS = st.builds(EpochRecord, TEXTS, TEXTS, U63, TEXTS, I64, U32, TEXTS, PLACES, TEXTS)


@given(stage=STAGES, page=STAGED, producer=PRODUCERS, epoch=EPOCHS)
def test_epochs_and_what_is_staged_for_them_come_back_as_they_went(
    stage: StageRecord, page: StagedPage, producer: ProducerRecord, epoch: EpochRecord
) -> None:
    assert codec.decode_stage(codec.encode_stage(stage)) == stage
    assert codec.decode_staged(codec.encode_staged(page)) == page
    assert codec.decode_producer(codec.encode_producer(producer)) == producer
    assert codec.decode_epoch(codec.encode_epoch(epoch)) == epoch


STAGE_PARTS = st.lists(st.builds(StagePart, U64, U64, U32), max_size=9).map(tuple)
PLACING = st.lists(st.tuples(TEXTS, U63), max_size=5).map(tuple)


@given(stages=STAGE_PARTS, placing=PLACING)
def test_stages_of_epochs_and_commits_that_place_them_come_back_as_they_went(
    stages: tuple[StagePart, ...], placing: tuple[tuple[str, int], ...]
) -> None:
    assert (
        codec.decode_epoch_stages(codec.encode_epoch_stages([number for part in stages for number in part])) == stages
    )
    assert codec.decode_placing(codec.encode_placing(placing)) == placing


@given(
    pages=st.lists(st.builds(StagedPage, U32, st.booleans(), st.integers(0, 255), U32, U32, U32, TEXTS), max_size=9),
    before=st.builds(Tail, U32, U32, U32, I64, I64),
    times=st.tuples(I64, I64),
)
def test_entries_of_placed_pages_are_those_that_each_page_gets_alone(
    pages: list[StagedPage], before: Tail, times: tuple[int, int]
) -> None:
    found = [codec.decode_entry(base, value) for base, value in codec.encode_placed(before, *times, pages)]

    end, size = before.next_offset, before.appended_bytes
    for number, (page, entry) in enumerate(zip(pages, found, strict=True)):
        facts = (page.count, page.number, page.bulk, page.size, page.encoding, *times, size)
        parts = (Part(end, times[0], page.traceparent),)
        assert entry == Entry(end, *facts, before.appended_pages + number, parts)
        assert codec.decode_entry(end, codec.encode_entry(entry)) == entry
        end += page.count
        size += page.size


def test_epochs_and_producers_that_were_stored_without_their_content_are_read() -> None:
    producer = {"producer": "q", "write_name": "w", "run": "r", "ticket": 1, "epoch": 4, "committed_by": "r"}
    epoch = {"producer": "q", "write_name": "w", "epoch": 4, "run": "r", "committed_at_us": 7, "tokens": 1}
    [found] = [codec.decode_producer(sealed(json.dumps({**producer, "committed_at_us": 7, "tokens": "t"}).encode()))]
    stored = codec.decode_epoch(sealed(json.dumps({**epoch, "digest": "t"}).encode() + b"\n"))

    assert (found.epoch, found.content) == (4, None)
    assert (stored.epoch, stored.content_digest) == (4, "")


@given(noise=st.binary(max_size=40))
def test_noise_is_no_epoch(noise: bytes) -> None:
    decodes = (codec.decode_stage, codec.decode_staged, codec.decode_producer, codec.decode_epoch)
    for decode in (*decodes, codec.decode_epoch_stages, codec.decode_placing):
        with pytest.raises(codec.Undecodable):
            decode(noise)
