"""Stored values of every kind round-trip, and damaged ones are never guessed at."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.epochs.values import EpochPart, EpochRecord, ProducerRecord, StagedPage, StagePart, StageRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import TRACES_MAX, DropReason, Entry, Gap, PagePart
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Mark
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS, SinkSettings
from forebay.broker.core.writes import Due, PutAge, SchemaRecord, SinkRecord, SubscriptionRecord
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.epochs.stage import STAGE, STAGED_PAGE
from forebay.broker.storage.records.header import Header
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION, JournalPosition
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY, decode_entry, encode_entry, encode_placed
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.partitions.cursor import CURSOR, TOTALS
from forebay.broker.storage.records.partitions.gap import GAP, decode_gap
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.marks import MARKS
from forebay.broker.storage.records.partitions.reserve import HELD, RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.records.registry import KINDS
from forebay.broker.storage.records.sealed import SEAL, Undecodable, opened, seal
from forebay.broker.storage.records.sinks.schema import SCHEMA, decode_schema
from forebay.broker.storage.records.sinks.sink import NEXT_SINK, SINK, SINK_COPY
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.records.sinks.writer import SLOT, WRITER
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, REALTIME, RESTORED, START, STOPPED, STORE_ID
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.storage.writes import FULL

U8 = st.integers(0, 255)
U32 = st.integers(0, 2**32 - 1)
U63 = st.integers(0, 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=20)
TRACES = st.text("0123456789abcdef-", max_size=55)


def tuples(values: st.SearchStrategy[Any], most: int = 5) -> st.SearchStrategy[Any]:
    """Tuples of any length."""
    return st.lists(values, max_size=most).map(tuple)


DROPS = tuples(st.tuples(U8, U64), 10)
SUBSCRIPTIONS = st.builds(
    SubscriptionRecord,
    name=TEXTS,
    created_at_us=I64,
    start=st.builds(Position, st.sampled_from(At), number=I64, offsets=tuples(st.tuples(U32, U64))),
    incarnation=U64.map("{:016x}".format),
    request_id=TEXTS,
)
SINKS = st.builds(
    SinkRecord,
    id=U32,
    name=TEXTS,
    incarnation=TEXTS,
    settings=st.builds(SinkSettings, max_disk_cache=U64, realtime=st.booleans(), retry_backoff_factor=st.floats(1, 10)),
    created_at_us=I64,
    paused=st.none() | TEXTS,
    request_id=TEXTS,
)
CURSORS = st.builds(
    Cursor,
    start=U64,
    watermark=U64,
    beyond=tuples(st.builds(Range, U64, U64)),
    acked=U64,
    dead_lettered=U64,
    dropped=U64,
    skipped=U64,
    attempts=tuples(st.tuples(U64, U32)),
    notified=U64,
    sent=U64,
)
REASONS = st.sampled_from(DropReason)
PLAIN_GAPS = st.builds(Gap, U64, U64, REASONS, I64, U64, U32, at_most=st.booleans())
MERGED_GAPS = st.builds(
    Gap,
    *(U64, U64, REASONS, I64, U64, U32, I64),
    merged=st.lists(st.tuples(U8, U64), min_size=1, max_size=10).map(tuple),
    detail=TEXTS,
)


def entries(base: st.SearchStrategy[int]) -> st.SearchStrategy[Entry]:
    """Entries whose parts have their traces kept."""

    def built(at: int) -> st.SearchStrategy[Entry]:
        parts = tuples(st.builds(PagePart, U32.map(lambda first: at + first), I64, TRACES), TRACES_MAX)
        return st.builds(Entry, st.just(at), U32, U64, st.booleans(), U64, U8, I64, I64, U64, U64, parts)

    return base.flatmap(built)


HEADERS = st.builds(Header, st.binary(min_size=16, max_size=16), U32, U32, U64, U64, U32, U8, U32)
LAST_EPOCH = (TEXTS, I64, TEXTS, st.none() | U63, TEXTS, TEXTS, TEXTS)
PARTS = tuples(st.builds(EpochPart, U32, U64, U64, U32, U64, U64, U64))
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    BULK_PAGE.name: HEADERS,
    SMALL_PAGE.name: HEADERS,
    ENTRY.name: entries(st.just(0)),
    SINK_COPY.name: SINKS,
    STORE_ID.name: TEXTS,
    START.name: U64,
    HIGHEST.name: st.tuples(U64, U64),
    NEXT_SINK.name: U64,
    AGE.name: st.builds(PutAge, U64, U64, st.binary(max_size=40), U64),
    COUNTING.name: U64,
    STOPPED.name: U64,
    POSITION.name: st.binary(max_size=40),
    REALTIME.name: st.integers(0, 1),
    JOURNAL_POSITION.name: st.builds(JournalPosition, TEXTS, U63, U63, TEXTS, U63),
    RESTORED.name: st.builds(Restored, TEXTS, TEXTS, U63, U63),
    SINK.name: SINKS,
    TAIL.name: st.builds(Tail, U64, U64, U64, I64, I64),
    HEAD.name: st.builds(Head, U64, U64, U64, U64, DROPS),
    CURSOR.name: CURSORS,
    WRITER.name: U64,
    SLOT.name: st.tuples(U64, st.builds(Slot, U64, U32, U64, U32)),
    GAP.name: (PLAIN_GAPS | MERGED_GAPS).map(lambda gap: dataclasses.replace(gap, first=0)),
    DUE.name: st.builds(Due, *([st.just(0)] * 4), U64, U64),
    QUARANTINE.name: entries(U63),
    SUBSCRIPTION.name: SUBSCRIPTIONS,
    TOTALS.name: st.builds(Totals, U64, U64, U64, U64, U64),
    RESERVE.name: st.builds(Reserve, U64, st.none() | U63),
    MARKS.name: tuples(st.builds(Mark, U64, I64)),
    HELD.name: tuples(st.builds(Held, U64, U64, U64, U32)),
    STAGE.name: st.builds(StageRecord, U64, TEXTS, TEXTS, U63, TEXTS, TEXTS, U64),
    STAGED_PAGE.name: st.builds(StagedPage, U64, st.booleans(), U8, U32, U32, U32, TEXTS),
    PRODUCER.name: st.builds(ProducerRecord, TEXTS, TEXTS, TEXTS, U64, st.none() | U63, *LAST_EPOCH),
    EPOCH.name: st.builds(EpochRecord, TEXTS, TEXTS, U63, TEXTS, I64, U32, TEXTS, PARTS, TEXTS),
    SCHEMA.name: st.builds(SchemaRecord, st.just(0), I64, st.binary(max_size=40), TEXTS),
    LARGE_COMMIT.name: tuples(st.tuples(TEXTS, U63)),
    STAGE_ORDER.name: tuples(st.builds(StagePart, U64, U64, U32), 9),
}
"""Values of each kind, as they are without what only their key knows."""


def as_written(kind: Kind[Any], value: Any) -> Any:
    """A value in the form in which it is written."""
    return [number for stage in value for number in stage] if kind is STAGE_ORDER else value


def as_read(kind: Kind[Any], value: Any) -> Any:
    """A value in the form in which it is read."""
    return (value.last, value.size) if kind is DUE else value


def stored_samples() -> Iterator[tuple[Kind[Any], bytes]]:
    """The value of every sample that is sealed, with its kind."""
    by_place = {(kind.family, kind.prefix): kind for kind in KINDS}
    for write in FULL:
        store = MemoryStore()
        Journal(store, bytes(16)).commit([], [write])
        for family in (Family.META, Family.INDEX):
            for key, value in store.scan(family, b"", b"\xff" * 64, 100):
                yield by_place.get((family, key[:1])) or ENTRY, value


SAMPLES: Final = [
    *stored_samples(),
    *((kind, kind.codec.encode(7)) for kind in (START, NEXT_SINK)),
    (STORE_ID, STORE_ID.codec.encode("abc")),
    (HIGHEST, HIGHEST.codec.encode((1, 2))),
    (JOURNAL_POSITION, JOURNAL_POSITION.codec.encode(JournalPosition("a" * 32, 7, 1, "b" * 32, 3))),
]
IDS: Final = [kind.name for kind, _ in SAMPLES]


def test_every_kind_is_tried_here() -> None:
    pages = {BULK_PAGE.name, SMALL_PAGE.name, SINK_COPY.name}

    assert set(VALUES) == {kind.name for kind in KINDS} == set(IDS) | pages


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(data=st.data())
def test_values_of_every_kind_round_trip(kind: Kind[Any], data: st.DataObject) -> None:
    value = data.draw(VALUES[kind.name])

    assert kind.codec.decode(kind.codec.encode(as_written(kind, value))) == as_read(kind, value)


@given(gap=PLAIN_GAPS | MERGED_GAPS, subscription=TEXTS)
def test_a_gap_gets_from_its_key_where_it_begins_and_whose_it_is(gap: Gap, subscription: str) -> None:
    own = dataclasses.replace(gap, subscription=subscription)

    assert decode_gap(GAP.codec.encode(own), gap.first, subscription) == own


@given(schema=st.builds(SchemaRecord, U32, I64, st.binary(max_size=40), TEXTS))
def test_a_schema_gets_its_version_from_its_key(schema: SchemaRecord) -> None:
    assert decode_schema(SCHEMA.codec.encode(schema), schema.version) == schema


@given(entry=entries(U63), more=st.lists(st.builds(PagePart, U32, I64, TRACES), max_size=5))
def test_an_entry_gets_its_offset_from_its_key_and_keeps_the_first_traces(entry: Entry, more: list[PagePart]) -> None:
    first = entry.parts + (PagePart(entry.base, 0, "t"),) * (TRACES_MAX - len(entry.parts))
    beyond = tuple(dataclasses.replace(part, first=entry.base + part.first) for part in more)

    found = decode_entry(encode_entry(dataclasses.replace(entry, parts=first + beyond)), entry.base)

    kept = first + tuple(dataclasses.replace(part, traceparent="") for part in beyond)
    assert found == dataclasses.replace(entry, parts=kept)


def test_a_gap_of_one_drop_is_stored_as_it_always_was() -> None:
    plain = GAP.codec.encode(Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5))

    assert plain == sealed(struct.pack(">QBqQI", 2, 1, 3, 4, 5))


def test_an_age_of_a_store_of_before_knows_no_boot() -> None:
    assert AGE.codec.decode(HIGHEST.codec.encode((11, 22))) == PutAge(11, 22)


def test_a_highest_page_number_of_a_store_of_before_counts_no_records() -> None:
    assert HIGHEST.codec.decode(START.codec.encode(11)) == (11, 0)


@given(made_at_us=I64)
def test_a_subscription_of_a_store_of_before_has_the_same_incarnation_at_each_start(made_at_us: int) -> None:
    start = {"at": 1, "number": 0, "offsets": []}
    stored = sealed(json.dumps({"name": "audit", "created_at_us": made_at_us, "start": start}).encode())

    found = SUBSCRIPTION.codec.decode(stored)

    assert found == SUBSCRIPTION.codec.decode(stored)
    assert 0 <= int(found.incarnation[:12], 16) < 1 << 48


@pytest.mark.parametrize(("kind", "value"), SAMPLES, ids=IDS)
def test_no_bit_can_flip_unnoticed(kind: Kind[Any], value: bytes) -> None:
    for place in range(len(value)):
        flipped = value[:place] + bytes([value[place] ^ 0x10]) + value[place + 1 :]
        with pytest.raises(Undecodable):
            kind.codec.decode(flipped)


@pytest.mark.parametrize(("kind", "value"), SAMPLES, ids=IDS)
def test_a_truncated_value_is_undecodable(kind: Kind[Any], value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(Undecodable):
            kind.codec.decode(value[:length])


def sealed(content: bytes, version: int = 1) -> bytes:
    """A content under a good checksum."""
    return seal(content)[:4] + bytes([version]) + content


@pytest.mark.parametrize(("kind", "value"), SAMPLES, ids=IDS)
@given(at=st.integers(0, 300), byte=st.integers(0, 255))
def test_a_wrong_byte_under_a_good_checksum_is_reported_or_changes_the_value(
    kind: Kind[Any], value: bytes, at: int, byte: int
) -> None:
    content = bytearray(value[SEAL.size :])
    content[at % len(content)] = byte
    try:
        kind.codec.decode(sealed(bytes(content)))
    except Undecodable:
        return


@pytest.mark.parametrize(("kind", "value"), SAMPLES, ids=IDS)
def test_a_layout_of_another_version_is_not_guessed_at(kind: Kind[Any], value: bytes) -> None:
    with pytest.raises(Undecodable, match="layout 2"):
        kind.codec.decode(sealed(value[SEAL.size :], version=2))


@pytest.mark.parametrize(("kind", "value"), [sample for sample in SAMPLES if sample[0] is not STORE_ID])
def test_a_sealed_value_that_is_too_short_is_not_guessed_at(kind: Kind[Any], value: bytes) -> None:
    if not value.endswith(b"-01"):  # a trace at the end is as long as it is
        with pytest.raises(Undecodable):
            kind.codec.decode(sealed(value[SEAL.size : -1]))
    if kind not in {HELD, STAGE_ORDER}:
        with pytest.raises(Undecodable):
            kind.codec.decode(sealed(b""))


def test_a_reason_that_this_version_does_not_know_is_not_guessed_at() -> None:
    content = bytearray(GAP.codec.encode(Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5))[SEAL.size :])
    content[8] = 99

    with pytest.raises(Undecodable):
        decode_gap(sealed(bytes(content)), 1)


def stored_sink(**changes: Any) -> bytes:
    """A sink as another version may have stored it."""
    fields = dataclasses.asdict(SinkRecord(1, "orders", "abc", DEFAULTS, 7))
    fields["settings"] |= changes
    return sealed(json.dumps(fields).encode())


def test_settings_of_a_later_version_are_left_out() -> None:
    assert SINK.codec.decode(stored_sink(unheard_of=5, max_disk_cache=9)).settings == SinkSettings(max_disk_cache=9)


@pytest.mark.parametrize("value", ["ten", None, [1], {"a": 1}, 1.5])
def test_a_setting_of_another_type_is_left_for_the_correction(value: Any) -> None:
    settings = SINK.codec.decode(stored_sink(max_disk_cache=value, partitions=3)).settings

    assert (settings.max_disk_cache, settings.partitions) == (value, 3)
    assert settings.corrected()[0] == dataclasses.replace(DEFAULTS, partitions=3)


@pytest.mark.parametrize("settings", [5, "x", None, [{}]])
def test_settings_that_are_none_at_all_are_the_defaults_and_reported(settings: Any) -> None:
    fields = dataclasses.asdict(SinkRecord(1, "orders", "abc", DEFAULTS, 7)) | {"settings": settings}

    found = SINK.codec.decode(sealed(json.dumps(fields).encode()))

    corrected, wrong = found.settings.corrected()
    assert (found.name, corrected, len(wrong)) == ("orders", DEFAULTS, 1)


def test_settings_that_an_earlier_version_did_not_have_take_their_default() -> None:
    value = sealed(json.dumps({"id": 1, "name": "a", "incarnation": "b", "settings": {}, "created_at_us": 7}).encode())

    assert SINK.codec.decode(value) == SinkRecord(1, "a", "b", DEFAULTS, 7)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"settings": {}}', b"\xff", b'{"settings": 5}', b"null"])
def test_content_that_is_no_sink_is_undecodable(content: bytes) -> None:
    with pytest.raises(Undecodable):
        SINK.codec.decode(sealed(content))


@given(
    pages=st.lists(st.builds(StagedPage, U32, st.booleans(), st.integers(0, 255), U32, U32, U32, TEXTS), max_size=9),
    before=st.builds(Tail, U32, U32, U32, I64, I64),
    times=st.tuples(I64, I64),
)
def test_entries_of_placed_pages_are_those_that_each_page_gets_alone(
    pages: list[StagedPage], before: Tail, times: tuple[int, int]
) -> None:
    found = [decode_entry(value, base) for base, value in encode_placed(before, *times, pages)]

    end, size = before.next_offset, before.appended_bytes
    for number, (page, entry) in enumerate(zip(pages, found, strict=True)):
        facts = (page.count, page.number, page.bulk, page.size, page.encoding, *times, size)
        parts = (PagePart(end, times[0], page.traceparent),)
        assert entry == Entry(end, *facts, before.appended_pages + number, parts)
        assert decode_entry(encode_entry(entry), end) == entry
        end += page.count
        size += page.size


def test_epochs_and_producers_that_were_stored_without_their_content_are_read() -> None:
    producer = {"producer": "q", "write_name": "w", "run": "r", "ticket": 1, "epoch": 4, "committed_by": "r"}
    epoch = {"producer": "q", "write_name": "w", "epoch": 4, "run": "r", "committed_at_us": 7, "tokens": 1}
    [found] = [PRODUCER.codec.decode(sealed(json.dumps({**producer, "committed_at_us": 7, "tokens": "t"}).encode()))]
    stored = EPOCH.codec.decode(sealed(json.dumps({**epoch, "digest": "t"}).encode() + b"\n"))

    assert (found.epoch, found.content) == (4, None)
    assert (stored.epoch, stored.content_digest) == (4, "")


@given(noise=st.binary(max_size=40))
def test_noise_is_no_epoch(noise: bytes) -> None:
    for kind in (STAGE, STAGED_PAGE, PRODUCER, EPOCH, STAGE_ORDER, LARGE_COMMIT):
        with pytest.raises(Undecodable):
            kind.codec.decode(noise)


@pytest.mark.parametrize(("size", "problem"), [(1, "^1 byte is too few$"), (2, "^2 bytes are too few$")])
def test_bytes_too_few_for_a_value_are_counted(size: int, problem: str) -> None:
    with pytest.raises(Undecodable, match=problem):
        opened(bytes(size))
