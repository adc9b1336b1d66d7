"""Repair of sinks that any stored value names, and of their schemas."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import WHOLE_SINK, PutSchema, PutSink, SchemaRecord, SinkRecord, Write
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.kind import place_of
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.scans import bulk_keys_all
from forebay.broker.storage.stored_sink import StoredSink

SCHEMAS_LEFT_OUT: Final = 16
"""Schema versions skipped after the last known one, where keys could not be read.

Rows of one of them may be stored.
"""


def all_sinks(damage: Damage, journal: Journal) -> dict[int, SinkRecord]:
    """Return all sinks, from their records or from other stored values."""
    state = damage.state
    sinks: dict[int, SinkRecord] = {}
    missing: list[int] = []
    for key, value in state.all(SINK):
        record = SINK.decoded(value)
        if record is not None:
            sinks[record.id] = record
            damage.names[record.id] = record.name
        else:
            missing.append(SINK.sink_of(key))
    if missing or state.lost:
        copies = state.copies()
        of_others = {kind.sink_of(key) for kind in (TAIL, HEAD, CURSOR) for key, _ in state.all(kind)}
        missing += [n for n in {*copies, *of_others} if n not in sinks and state.is_lost(SINK.key(n))]
        for number in sorted(set(missing)):
            sinks[number] = _restored(damage, journal, number, copies.get(number), list(sinks.values()))
    return sinks


def _restored(
    damage: Damage, journal: Journal, number: int, copy: SinkRecord | None, others: Collection[SinkRecord]
) -> SinkRecord:
    record = copy or _recovered(damage, number, {sink.name for sink in others})
    damage.names[number] = record.name
    from_copy = "its settings were taken from their copy"
    damage.report(
        SINK.name, number, None, from_copy if copy else "its name and settings are lost; they are the default"
    )
    journal.commit([], [PutSink(record)])
    return record


def _recovered(damage: Damage, number: int, taken: set[str]) -> SinkRecord:
    places = [place_of(key) for kind in (TAIL, HEAD) for key, _ in damage.state.all(kind)]
    found = [partition for sink, partition in places if sink == number]
    name = f"recovered-{number}"
    while name in taken:
        name += "-"
        name += secrets.token_hex(2)
    return SinkRecord(number, name, secrets.token_hex(8), SinkSettings(partitions=max([0, *found]) + 1), 0)


def adopt(damage: Damage, journal: Journal, sinks: dict[int, StoredSink]) -> None:
    """Add sinks that were lost with the log and have pages in files, except for deleted ones."""
    due = (DUE.parts(key) for key, _ in damage.state.all(DUE))
    deleted = {number for number, partition, *_ in due if partition == WHOLE_SINK}
    for _, number, partition in map(BULK_PAGE.parts, bulk_keys_all(damage.state.store, *ALL_BULK)):
        if number not in sinks:
            if number in deleted:
                continue
            others = [sink.record for sink in sinks.values()]
            sinks[number] = StoredSink(_restored(damage, journal, number, None, others))
        known = sinks[number]
        if partition >= known.partitions:
            settings = replace(known.record.settings, partitions=partition + 1)
            known.record = replace(known.record, settings=settings)
            journal.commit([], [PutSink(known.record)])


def repair_schemas(damage: Damage, sinks: Mapping[int, StoredSink], cut_off: Collection[int]) -> list[Write]:
    """Repair schemas: no version is reused, neither an unreadable one nor those that may follow the last.

    ``cut_off``: sinks with rows in files whose schema version may be gone with the end of the log.
    """
    lost = [SCHEMA.parts(key) for key in damage.keys(SCHEMA)]
    for number, version in lost:
        damage.report(SCHEMA.name, number, None, f"version {version} is lost: its rows cannot be read")
    for number, sink in sinks.items():
        first = max([0, *sink.schemas, *(version for owner, version in lost if owner == number)]) + 1
        end = first + SCHEMAS_LEFT_OUT
        if damage.state.is_lost(SCHEMA.key(number, first)) or number in cut_off:
            lost += [(number, version) for version in range(first, end)]
            detail = f"versions {first} to {end - 1} are skipped: they may have been assigned"
            damage.report(SCHEMA.name, number, None, detail)
    for number, version in lost:
        sinks[number].schemas[version] = SchemaRecord(version, 0, b"", "")
    return [PutSchema(number, sinks[number].schemas[version]) for number, version in lost]
