"""Repair of the values of the store as a whole: each is derived from the rest of the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.partition.log import Tail
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import PutAge, SinkRecord
from forebay.broker.storage.records.header import Header
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.pages.page import key_of
from forebay.broker.storage.records.sinks.sink import NEXT_SINK
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, STOPPED, STORE_ID
from forebay.broker.storage.repair import store_values
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.state import State
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.stored_sink import StoredSink

NOISE = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"
IDENTITY = bytes(range(16))


def stored(kind: Kind[Any], value: object) -> MemoryStore:
    store = MemoryStore()
    store_values.put(store, kind, value)
    return store


def damaged(kind: Kind[Any], store: MemoryStore | None = None) -> MemoryStore:
    store = store or MemoryStore()
    store.write([Put(Family.META, kind.key(), NOISE)])
    return store


def with_a_page(*, bulk: bool) -> MemoryStore:
    header = Header(IDENTITY, sink=1, partition=0, number=7, base=0, count=1, encoding=1, crc32=0)
    key, value = key_of(1, 0, 7, bulk=bulk), header.encode() + b"body"
    store = MemoryStore()
    if bulk:
        store.ingest([(key, value)])
    else:
        store.write([Put(Family.SMALL, key, value)])
    return store


def seen(store: MemoryStore) -> Damage:
    return Damage(State(store))


def now(store: MemoryStore, kind: Kind[Any]) -> Any:
    return State(store).one(kind)


def reported(damage: Damage) -> list[tuple[str, str]]:
    return [(each.what, each.detail) for each in damage.reported]


def test_a_stored_identity_is_returned_and_a_new_store_has_none() -> None:
    known, new = seen(stored(STORE_ID, IDENTITY.hex())), seen(MemoryStore())

    assert store_values.store_id(known) == IDENTITY
    assert store_values.store_id(new) == b""
    assert reported(known) == reported(new) == []


@pytest.mark.parametrize("bulk", [False, True])
def test_a_damaged_identity_is_taken_from_a_page_and_stored(bulk: bool) -> None:
    store = damaged(STORE_ID, with_a_page(bulk=bulk))
    damage = seen(store)

    assert store_values.store_id(damage) == IDENTITY
    assert now(store, STORE_ID) == IDENTITY.hex()
    assert reported(damage) == [(STORE_ID.name, "taken from a page")]


def test_a_damaged_identity_without_an_intact_page_is_created() -> None:
    store = damaged(STORE_ID)
    store.write([Put(Family.SMALL, key_of(1, 0, 7, bulk=False), NOISE)])
    damage = seen(store)

    identity = store_values.store_id(damage)

    assert len(identity) == 16
    assert now(store, STORE_ID) == identity.hex()
    assert reported(damage) == [(STORE_ID.name, "created: the store has no page")]


def test_the_last_counting_start_is_the_stored_one_or_the_last_start() -> None:
    store = damaged(COUNTING)
    lost = seen(store)

    assert store_values.counting(seen(stored(COUNTING, 3)), last=5) == 3
    assert store_values.counting(seen(MemoryStore()), last=5) == 5
    assert store_values.counting(lost, last=5) == 5
    assert now(store, COUNTING) == 5
    assert reported(lost) == [(COUNTING.name, COUNTING.damaged)]


def test_a_damaged_stop_counts_as_a_kill() -> None:
    store = damaged(STOPPED)
    lost = seen(store)

    assert store_values.stopped(seen(stored(STOPPED, 4))) == 4
    assert store_values.stopped(seen(MemoryStore())) == 0
    assert store_values.stopped(lost) == 0
    assert now(store, STOPPED) == 0
    assert reported(lost) == [(STOPPED.name, STOPPED.damaged)]


def test_a_damaged_highest_number_is_that_of_the_files_with_the_records_noted_beside_the_log() -> None:
    store = damaged(HIGHEST)
    store.mark((60, 2))
    store.sync()
    lost = seen(store.reopen())

    assert store_values.highest(seen(stored(HIGHEST, (9, 40))), in_files=12) == (9, 40, False)
    assert store_values.highest(seen(MemoryStore()), in_files=12) == (0, 0, False)
    assert store_values.highest(lost, in_files=12) == (12, 60, True)
    assert reported(lost) == [(HIGHEST.name, HIGHEST.damaged)]


def test_the_next_sink_is_above_the_stored_number_and_every_known_sink() -> None:
    behind = stored(NEXT_SINK, 3)

    assert store_values.next_sink(seen(MemoryStore()), []) == 1
    assert store_values.next_sink(seen(stored(NEXT_SINK, 9)), [1, 2]) == 9
    assert store_values.next_sink(seen(behind), [1, 7]) == 8
    assert now(behind, NEXT_SINK) == 8


def test_a_damaged_next_sink_continues_above_the_known_ones_and_is_reported() -> None:
    store = damaged(NEXT_SINK)
    damage = seen(store)

    assert store_values.next_sink(damage, [4]) == 5
    assert now(store, NEXT_SINK) == 5
    assert reported(damage) == [(NEXT_SINK.name, "continues at 5")]


def test_a_damaged_age_continues_at_the_youngest_page() -> None:
    def sink(number: int, *tails: Tail) -> StoredSink:
        record = SinkRecord(number, f"sink-{number}", "abc", replace(DEFAULTS, partitions=2), 7)
        return StoredSink(record, tails=dict(enumerate(tails)))

    store = damaged(AGE)
    damage = seen(store)
    sinks = [sink(1, Tail(1, accepted_at_us=50, age_us=5), Tail(1, accepted_at_us=90, age_us=9)), sink(2)]

    assert store_values.age(damage, sinks) == PutAge(9, 90)
    assert now(store, AGE) == PutAge(9, 90)
    assert reported(damage) == [(AGE.name, AGE.damaged)]


def test_an_intact_age_is_the_stored_one_and_a_new_store_begins_at_zero() -> None:
    clocks = PutAge(5, 50, bytes(16), 7)

    assert store_values.age(seen(stored(AGE, clocks)), []) == clocks
    assert store_values.age(seen(MemoryStore()), []) == PutAge()
