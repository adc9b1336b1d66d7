"""Damage of a start: damaged values by kind, and the report of the repairs."""

from __future__ import annotations

import pytest

from forebay.broker.core.partition.repair import RepairReport
from forebay.broker.core.writes import PutHeld, Write
from forebay.broker.storage.records.partitions.reserve import HELD
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.records.store import STORE_ID
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.state import State
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore

NOISE = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"


@pytest.fixture
def damage() -> Damage:
    return Damage(State(MemoryStore()))


def test_a_repair_is_reported_with_the_name_of_its_sink_or_its_number(damage: Damage) -> None:
    damage.names[1] = "orders"

    damage.report("tail", 1, 0, "recounted")
    damage.report("tail", 2, 3, "recounted")
    damage.report("age", None, None, "continues")

    assert damage.reported == [
        RepairReport("tail", "orders", 0, "recounted"),
        RepairReport("tail", "2", 3, "recounted"),
        RepairReport("age", "", None, "continues"),
    ]


def test_a_damaged_key_is_known_by_its_kind(damage: Damage) -> None:
    key = TAIL.key(1, 0)

    damage.add(TAIL, key)

    assert damage.keys(TAIL) == [key]
    assert damage.keys(HELD) == []
    assert damage.has(key)
    assert not damage.has(TAIL.key(1, 1))


def test_a_key_in_an_unreadable_range_counts_as_damaged(damage: Damage) -> None:
    damage.state.lost.append((TAIL.key(1, 0), TAIL.key(2, 0)))

    assert damage.has(TAIL.key(1, 7))
    assert not damage.has(TAIL.key(2, 0))


def test_a_damaged_value_of_the_store_as_a_whole_is_reported_and_an_intact_one_is_not() -> None:
    store = MemoryStore()
    intact = Damage(State(store))
    store.write([Put(Family.META, STORE_ID.key(), NOISE)])
    damaged = Damage(State(store))

    assert not intact.reports(STORE_ID)
    assert damaged.reports(STORE_ID)
    assert intact.reported == []
    assert damaged.reported == [RepairReport(STORE_ID.name, "", None, STORE_ID.damaged)]


def test_a_damaged_value_is_replaced_and_written_by_the_rule_of_its_kind(damage: Damage) -> None:
    writes: list[Write] = []

    value = damage.replace(HELD, HELD.key(1, 2), writes)

    assert value == ()
    assert writes == [PutHeld(1, 2, ())]
    assert [(each.what, each.sink, each.partition) for each in damage.reported] == [(HELD.name, "1", 2)]


def test_the_report_of_a_kind_without_partitions_names_none(damage: Damage) -> None:
    writes: list[Write] = []

    record = damage.replace(SUBSCRIPTION, SUBSCRIPTION.key(1, "audit"), writes)

    assert record.name == "audit"
    assert [(each.what, each.partition) for each in damage.reported] == [(SUBSCRIPTION.name, None)]
