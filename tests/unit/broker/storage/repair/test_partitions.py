"""Repair of damaged state at a start: every kind of value, one at a time."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from forebay.broker.core.partition import repair as rules
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, DropReason, Encoding, Entry, Gap
from forebay.broker.core.partition.repair import ASSIGNED_MAX
from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS, BufferMode
from forebay.broker.core.writes import (
    Due,
    PageWrite,
    PutAge,
    PutCounting,
    PutCursor,
    PutDue,
    PutEntry,
    PutGap,
    PutHead,
    PutReserve,
    PutSchema,
    PutSink,
    PutSlot,
    PutStopped,
    PutTail,
    PutWriter,
    SchemaRecord,
    SinkRecord,
    Write,
)
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.reserve import HELD, RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import NEXT_SINK, SINK, SINK_COPY
from forebay.broker.storage.records.sinks.writer import SLOT, WRITER
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, START, STOPPED, STORE_ID
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.store.contract import Delete, Family, Put
from forebay.broker.storage.store.memory import MemoryStore

RECORD = SinkRecord(1, "orders", "abc", replace(DEFAULTS, partitions=2), 7)
OTHER = SinkRecord(2, "other", "def", DEFAULTS, 8)
NOISE = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"
STORED_TAIL = Tail(50, 40, 5, 1_004, 104)
STORED_HEAD = Head(20, 20, 16, 2, ((1, 10),))
STORED_CURSOR = Cursor(watermark=25, acked=15, dropped=10, notified=25, sent=40)
SECOND = SchemaRecord(2, 8, b"second", "{}")
STORED_GAP = Gap(10, 20, DropReason.OVERFLOW, 1_001, 8, 1)


def page(base: int, number: int, *, bulk: bool, before: int) -> PageWrite:
    body = b"%08d" % base
    entry = Entry(base, 10, number, bulk, 8, 1, 1_000 + before, 100 + before, before * 8, before)
    return PageWrite(1, 0, entry, Body(zlib.crc32(body), body))


PAGES = [page(20 + 10 * i, (1 << 40) + 3 + i, bulk=bool(i % 2), before=2 + i) for i in range(3)]


def filled() -> MemoryStore:
    """A store with one sink of everything: 20 offsets removed, three pages, a cursor in the first; and another sink."""
    store = MemoryStore()
    journal = recover(store).journal
    writes: list[Write] = [
        PutSink(RECORD, fresh=True),
        PutSink(OTHER, fresh=True),
        PutHead(1, 0, STORED_HEAD),
        PutTail(1, 0, STORED_TAIL),
        PutGap(1, 0, STORED_GAP),
        PutCursor(1, "default", 0, STORED_CURSOR),
        PutCursor(1, "second", 0, replace(STORED_CURSOR, watermark=20, acked=10)),
        PutWriter(1, "w", 77),
        PutSchema(1, SchemaRecord(1, 7, b"first", "{}")),
        PutSchema(1, SECOND),
        PutSlot(1, "w", 77, 0, Slot(3, 9, 40, 10)),
        PutDue(Due(1, 0, True, 1, 2, 3)),
        PutAge(104, 1_004),
        PutCounting(1),
        PutStopped(1),
        PutTail(2, 0, Tail(0)),
    ]
    journal.commit(PAGES, [*writes, *(PutEntry(1, 0, one.entry) for one in PAGES)])
    return store.reopen()


KEYS = {
    "store id": STORE_ID.key(),
    "start count": START.key(),
    "highest": HIGHEST.key(),
    "next sink": NEXT_SINK.key(),
    "age": AGE.key(),
    "counting start": COUNTING.key(),
    "stopped start": STOPPED.key(),
    "sink": SINK.key(1),
    "tail": TAIL.key(1, 0),
    "head": HEAD.key(1, 0),
    "cursor": CURSOR.key(1, 0, "default"),
    "second cursor": CURSOR.key(1, 0, "second"),
    "writer": WRITER.key(1, "w"),
    "slot": SLOT.key(1, "w", 0, 3),
    "schema": SCHEMA.key(1, 1),
    "gap": GAP.key(1, 0, 10),
    "due": DUE.key(1, 0, True, 1),
}


def balanced(found: Recovered) -> bool:
    """The identity holds for every cursor."""
    return all(
        cursor.balances(sink.tails.get(partition, Tail()).next_offset)
        for sink in found.sinks
        for (_, partition), cursor in sink.cursors.items()
    )


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("how", ["ten random bytes", "unreadable"])
def test_a_damaged_value_keeps_no_store_from_starting_and_costs_nothing_that_can_be_rebuilt(
    kind: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stored state value replaced by ten random bytes."""
    store = filled()
    before = recover(filled())
    store_id = before.journal.store_id
    if kind != "store id":
        store_id = bytes.fromhex(STORE_ID.codec.decode(store.get_many(Family.META, [STORE_ID.key()])[0] or b""))
    if how == "unreadable":
        store.damage(Family.META, KEYS[kind])
    else:
        store.write([Put(Family.META, KEYS[kind], NOISE)])

    found = recover(store)

    orders, other = found.sinks
    assert (orders.record, other) == (RECORD, before.sinks[1])
    assert orders.tails[0] == STORED_TAIL
    assert replace(orders.heads[0], dropped=()) == replace(STORED_HEAD, dropped=())
    assert balanced(found)
    assert kind == "store id" or found.journal.store_id == store_id
    assert (found.start_count, found.next_sink, found.age) == (2, 3, PutAge(104, 1_004))
    gone = [] if (kind, how) == ("gap", "unreadable") else [(10, 20)]
    assert [(gap.first, gap.end) for gap in orders.gaps.get(0, [])] == gone
    assert len(found.journal.entries(1, 0, 0, 100, 100)) == 3
    assert [body is not None for body in found.journal.read_pages(1, 0, [one.entry for one in PAGES])] == [True] * 3
    if kind != "slot":  # they are read when their writer comes
        assert "damage was repaired" in caplog.text
        assert found.repairs
    assert recover(found.journal.store.reopen()).repairs == ()  # type: ignore[attr-defined]


def test_a_damaged_cursor_begins_at_the_earliest_record_that_is_stored() -> None:
    """Everything unsettled so far as known is delivered again, and a warning says so."""
    store = filled()
    store.write([Put(Family.META, CURSOR.key(1, 0, "default"), NOISE)])

    found = recover(store)

    cursor = found.sinks[0].cursors["default", 0]
    assert (cursor.start, cursor.watermark, cursor.pending(50)) == (20, 20, 30)
    assert found.sinks[0].cursors["second", 0].watermark == 20
    assert [str(one) for one in found.repairs] == [
        "cursor of orders/0: `default` begins again at 20, nothing is skipped"
    ]


def test_a_damaged_schema_keeps_its_version_and_the_others_are_as_they_were() -> None:
    store = filled()
    store.write([Put(Family.META, SCHEMA.key(1, 1), NOISE)])

    found = recover(store)

    assert found.sinks[0].schemas == {1: SchemaRecord(1, 0, b"", ""), 2: SECOND}
    assert [str(one) for one in found.repairs] == ["schema of orders: version 1 is lost: its rows cannot be read"]
    assert recover(found.journal.store.reopen()).sinks[0].schemas == found.sinks[0].schemas  # type: ignore[attr-defined]


def test_no_version_of_a_schema_is_given_twice_where_the_last_one_could_not_be_read() -> None:
    store = filled()
    store.damage(Family.META, SCHEMA.key(1, 2))

    found = recover(store)

    assert max(found.sinks[0].schemas) >= 2
    assert [version for version, schema in found.sinks[0].schemas.items() if not schema.lost] == [1]


def test_a_damaged_tail_beside_a_damaged_cursor_leaves_offsets_out() -> None:
    store = filled()
    store.write([Put(Family.META, key, NOISE) for key in (KEYS["tail"], KEYS["cursor"])])

    found = recover(store)

    assert found.sinks[0].tails[0].next_offset == 50 + rules.RESERVE
    assert found.sinks[0].gaps[0][-1] == Gap(50, 50 + rules.RESERVE, DropReason.CORRUPT, 1_004, 0, 0)
    assert balanced(found)


def test_a_sink_without_any_record_of_it_gets_a_name_that_says_so() -> None:
    store = filled()
    store.write([Put(Family.META, SINK.key(1), NOISE), Delete(Family.INDEX, SINK_COPY.key(0, 1, 0))])

    found = recover(store)

    orders = found.sinks[0].record
    assert (orders.name, orders.settings.partitions) == ("recovered-1", 1)
    assert found.sinks[0].cursors["default", 0] == STORED_CURSOR


def test_all_of_the_state_may_be_unreadable() -> None:
    store = filled()
    for key, _ in store.scan(Family.META, b"", b"\xff", 1_000):
        store.damage(Family.META, key)

    found = recover(store)

    orders, other = found.sinks
    assert (orders.record, other.record) == (RECORD, OTHER)
    assert orders.tails[0].next_offset == 50 + rules.RESERVE
    assert orders.cursors["default", 0].watermark == 20
    assert balanced(found)
    assert len(found.journal.entries(1, 0, 0, 100, 100)) == 3


def test_one_page_that_is_named_again_is_no_plural() -> None:
    store = filled()
    store.write([Delete(Family.INDEX, ENTRY.key(1, 0, 30))])
    store.damage(Family.META, HEAD.key(1, 0))

    found = recover(store)

    assert "1 page was named again" in [one.detail for one in found.repairs]
    assert "recounted: 30 records from 20 on" in [one.detail for one in found.repairs]


def lost_end(store: MemoryStore) -> MemoryStore:
    """The store as a damaged log leaves it: the last two pages were stored, and the batches that say so are gone."""
    old_tail = replace(STORED_TAIL, next_offset=30, appended_pages=3, appended_bytes=24)
    store.write(
        [
            *(Delete(Family.INDEX, ENTRY.key(1, 0, base)) for base in (30, 40)),
            Delete(Family.SMALL, SMALL_PAGE.key(1, 0, PAGES[2].entry.number)),
        ]
    )
    journal = recover(filled()).journal
    journal.store = store
    journal.commit([], [PutTail(1, 0, old_tail)])

    store.write([Put(Family.META, HIGHEST.key(), HIGHEST.codec.encode((PAGES[0].entry.number, 10)))])
    return store.reopen()


def test_after_a_damaged_log_no_version_of_a_schema_is_given_twice_whose_rows_are_in_files() -> None:
    store = filled()
    [entry] = [one.entry for one in PAGES if one.entry.bulk]
    rows = replace(entry, number=entry.number + 10, base=60, encoding=Encoding.ARROW)
    journal = recover(store).journal
    body = PAGES[1].body
    journal.commit(
        [PageWrite(1, 0, rows, body)], [PutEntry(1, 0, rows), PutTail(1, 0, replace(STORED_TAIL, next_offset=70))]
    )
    store = store.reopen()
    store.write([Delete(Family.META, SCHEMA.key(1, 2)), Delete(Family.INDEX, ENTRY.key(1, 0, 60))])

    found = recover(lost_end(store))

    schemas = found.sinks[0].schemas
    assert schemas[1] == SchemaRecord(1, 7, b"first", "{}")
    assert max(schemas) > 2
    assert all(schema.lost for version, schema in schemas.items() if version > 1)
    assert found.sinks[1].schemas == {}


def test_after_a_damaged_log_files_are_named_again_and_no_offset_is_assigned_twice() -> None:
    found = recover(lost_end(filled()))

    orders = found.sinks[0]
    assert [entry.base for entry in found.journal.entries(1, 0, 0, 100, 100)] == [20, 30]
    assert orders.tails[0].next_offset == 50
    assert orders.gaps[0][1:] == [Gap(40, 50, DropReason.CORRUPT, orders.tails[0].accepted_at_us, 0, 0)]
    assert orders.cursors["default", 0].dropped == STORED_CURSOR.dropped + 10
    assert balanced(found)
    assert found.due == (Due(1, 0, True, 1, 2, 3),), "what is in files was acknowledged, so it is not reclaimed"
    assert recover(found.journal.store.reopen()).repairs == ()  # type: ignore[attr-defined]


FORGETFUL = replace(RECORD, settings=replace(DEFAULTS, buffer_mode=BufferMode.SPILL, memory_cache_threshold=1_024))


@pytest.mark.parametrize("how", ["ten random bytes", "unreadable"])
def test_a_damaged_reservation_is_reported_and_no_offset_that_it_had_assigned_is_reused(how: str) -> None:
    store = MemoryStore()
    journal = recover(store).journal
    handed_out = 40 + 1_024
    journal.commit(
        [],
        [
            PutSink(FORGETFUL, fresh=True),
            PutReserve(1, 0, Reserve(70_000, slot=2)),
            PutCursor(1, "default", 0, Cursor(watermark=40, acked=40, notified=40, sent=40)),
        ],
    )
    key = RESERVE.key(1, 0)
    if how == "unreadable":
        store.damage(Family.META, key)
    else:
        store.write([Put(Family.META, key, NOISE)])

    again = store.reopen()
    found = recover(again)

    [sink] = found.sinks
    assert sink.reserves[0].end == handed_out + ASSIGNED_MAX
    assert "reserve" in {one.what for one in found.repairs}
    assert "tail" not in {one.what for one in found.repairs}
    assert recover(again.reopen()).repairs == ()


def test_damaged_runs_of_memory_and_a_damaged_quarantined_page_are_reported() -> None:
    store = filled()
    store.write([Put(Family.META, HELD.key(1, 0), NOISE)])
    store.write([Put(Family.META, QUARANTINE.key(1, 0, 9), NOISE)])

    found = recover(store)

    assert {"held runs", "quarantined page"} <= {one.what for one in found.repairs}
    assert balanced(found)
