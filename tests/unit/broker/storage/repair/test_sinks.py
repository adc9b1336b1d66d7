"""Repair of sinks and schemas: no stored page is left without a sink, and no version is assigned twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forebay.broker.core.partition.log import Tail
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    WHOLE_SINK,
    Due,
    PutDue,
    PutSchema,
    PutSink,
    PutTail,
    SchemaRecord,
    SinkRecord,
    Write,
)
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.pages.page import key_of
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import SINK, SINK_COPY
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.repair.sinks import SCHEMAS_LEFT_OUT, adopt, all_sinks, repair_schemas
from forebay.broker.storage.state import State
from forebay.broker.storage.store.contract import Delete, Family, Operation, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.stored_sink import StoredSink

NOISE = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"
ORDERS = SinkRecord(1, "orders", "abc", replace(DEFAULTS, partitions=3), 7)
OTHER = SinkRecord(2, "other", "def", DEFAULTS, 8)


def holding(*writes: Write, after: tuple[Operation, ...] = ()) -> tuple[Damage, Journal]:
    """Return the damage and the journal of a store after the writes, and then the operations."""
    store = MemoryStore()
    journal = Journal(store, bytes(16))
    journal.commit([], writes)
    store.write(after)
    return Damage(State(store)), journal


def stored_sinks(damage: Damage) -> dict[int, Any]:
    return {record.id: record for _, value in State(damage.state.store).all(SINK) if (record := SINK.decoded(value))}


def reported(damage: Damage) -> list[tuple[str, str, str]]:
    return [(each.what, each.sink, each.detail) for each in damage.reported]


def test_intact_sinks_are_returned_without_a_report() -> None:
    damage, journal = holding(PutSink(ORDERS), PutSink(OTHER))

    assert all_sinks(damage, journal) == {1: ORDERS, 2: OTHER}
    assert damage.names == {1: "orders", 2: "other"}
    assert damage.reported == []


def test_a_damaged_sink_is_restored_from_its_copy() -> None:
    damage, journal = holding(PutSink(ORDERS), after=(Put(Family.META, SINK.key(1), NOISE),))

    assert all_sinks(damage, journal) == {1: ORDERS}
    assert stored_sinks(damage) == {1: ORDERS}
    assert reported(damage) == [(SINK.name, "orders", "its settings were taken from their copy")]


def test_a_damaged_sink_without_a_copy_gets_another_name_and_all_its_partitions() -> None:
    taken = replace(OTHER, name="recovered-1")
    damage, journal = holding(
        PutSink(ORDERS),
        PutSink(taken),
        PutTail(1, 4, Tail(9)),
        after=(Put(Family.META, SINK.key(1), NOISE), Delete(Family.INDEX, SINK_COPY.key(0, 1, 0))),
    )

    found = all_sinks(damage, journal)[1]

    assert found.name.startswith("recovered-1-")
    assert found.settings == replace(DEFAULTS, partitions=5)
    assert stored_sinks(damage) == {1: found, 2: taken}
    assert reported(damage) == [(SINK.name, found.name, "its name and settings are lost; they are the default")]


def test_a_sink_in_an_unreadable_range_is_restored_if_a_copy_or_another_value_names_it() -> None:
    damage, journal = holding(
        PutSink(ORDERS),
        PutTail(2, 0, Tail(9)),
        after=(Delete(Family.META, SINK.key(1)),),
    )
    damage.state.lost.append((SINK.key(1), SINK.key(9)))

    found = all_sinks(damage, journal)

    assert found[1] == ORDERS
    assert found[2].name == "recovered-2"


def test_pages_in_files_without_a_sink_get_one_with_enough_partitions() -> None:
    damage, journal = holding(PutSink(OTHER))
    damage.state.store.ingest(
        [(key_of(sink, at, 10 + at, bulk=True), b"page") for sink, at in ((5, 0), (5, 3), (2, 4))]
    )
    sinks = {2: StoredSink(OTHER)}

    adopt(damage, journal, sinks)

    assert {number: sink.record.settings.partitions for number, sink in sinks.items()} == {2: 5, 5: 4}
    assert stored_sinks(damage) == {number: sink.record for number, sink in sinks.items()}
    assert [what for what, _, _ in reported(damage)] == [SINK.name]


def test_a_damaged_schema_version_stays_assigned_without_its_content() -> None:
    damage, _ = holding(PutSink(ORDERS))
    damage.names[1] = "orders"
    damage.add(SCHEMA, SCHEMA.key(1, 2))
    sink = StoredSink(ORDERS, schemas={1: SchemaRecord(1, 5, b"arrow", "spark")})

    writes = repair_schemas(damage, {1: sink}, cut_off=())

    assert writes == [PutSchema(1, SchemaRecord(2, 0, b"", ""))]
    assert sink.schemas[2].lost
    assert reported(damage) == [(SCHEMA.name, "orders", "version 2 is lost: its rows cannot be read")]


def test_versions_that_may_have_been_assigned_before_the_log_was_cut_are_skipped() -> None:
    damage, _ = holding(PutSink(ORDERS))
    sink = StoredSink(ORDERS, schemas={1: SchemaRecord(1, 5, b"arrow", "spark")})

    writes = repair_schemas(damage, {1: sink}, cut_off={1})

    skipped = range(2, 2 + SCHEMAS_LEFT_OUT)
    assert writes == [PutSchema(1, SchemaRecord(version, 0, b"", "")) for version in skipped]
    assert list(sink.schemas) == [1, *skipped]


def test_intact_schemas_are_left_alone() -> None:
    damage, _ = holding(PutSink(ORDERS))

    assert repair_schemas(damage, {1: StoredSink(ORDERS)}, cut_off=()) == []
    assert damage.reported == []


def test_pages_in_files_of_a_deleted_sink_stay_deleted() -> None:
    damage, journal = holding(PutSink(OTHER), PutDue(Due(5, WHOLE_SINK, bulk=True, first=1, last=99, size=0)))
    damage.state.store.ingest([(key_of(5, 0, 10, bulk=True), b"page")])
    sinks = {2: StoredSink(OTHER)}

    adopt(damage, journal, sinks)

    assert sinks.keys() == {2}
    assert damage.reported == []
