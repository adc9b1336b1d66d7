"""Repair of the values of the store as a whole, from the rest of the store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from forebay.broker.core.partition.log import Tail
from forebay.broker.core.writes import PutAge
from forebay.broker.storage.records.header import Damaged, decode_header
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.pages.page import ALL_BULK
from forebay.broker.storage.records.sealed import V
from forebay.broker.storage.records.sinks.sink import NEXT_SINK
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, STOPPED, STORE_ID
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.stored_sink import StoredSink


def put(store: Store, kind: Kind[V], value: V) -> None:
    """Write a value of the store as a whole."""
    store.commit([], [kind.put(kind.key(), value)], sync=False)


def store_id(damage: Damage) -> bytes:
    """Return the identity of the store, empty for a new one."""
    state = damage.state
    text = state.one(STORE_ID)
    if text is not None:
        return bytes.fromhex(text)
    found = _id_of_pages(state.store)
    if state.empty and found is None:
        return b""
    identity = found or secrets.token_bytes(16)
    put(state.store, STORE_ID, identity.hex())
    damage.report(STORE_ID.name, None, None, "taken from a page" if found else "created: the store has no page")
    return identity


def _id_of_pages(store: Store) -> bytes | None:
    values = [value for _, value in store.scan(Family.SMALL, b"", b"\xff" * 17, 10)]
    values += [value for key in store.bulk_keys(*ALL_BULK, 10) for value in store.get_many(Family.BULK, [key]) if value]
    for value in values:
        try:
            return decode_header(value).store
        except Damaged:
            continue
    return None


def counting(damage: Damage, last: int) -> int:
    """Return the last start that counted its accepted records; ``last``, the one before, if it is lost."""
    if damage.reports(COUNTING):
        put(damage.state.store, COUNTING, last)
    found = damage.state.one(COUNTING)
    return last if found is None else found


def stopped(damage: Damage) -> int:
    """Return the last start that stopped in order, 0 where it is not known."""
    if damage.reports(STOPPED):
        put(damage.state.store, STOPPED, 0)
    return damage.state.one(STOPPED) or 0


def highest(damage: Damage, in_files: int) -> tuple[int, int, bool]:
    """Return the highest page number with a name, the records stored by then, and whether both were lost."""
    if damage.reports(HIGHEST):
        return in_files, damage.state.store.marked()[0], True
    return *(damage.state.one(HIGHEST) or (0, 0)), False


def next_sink(damage: Damage, known: Iterable[int]) -> int:
    """Return the number of the next sink, above the known ones."""
    found = damage.state.one(NEXT_SINK)
    above = max([0, *known]) + 1
    if damage.state.is_damaged(NEXT_SINK) or above > (found or 1):
        if not damage.state.empty:
            damage.report(NEXT_SINK.name, None, None, f"continues at {above}")
        put(damage.state.store, NEXT_SINK, max(above, found or 0))
    return max(1, above, found or 0)


def age(damage: Damage, sinks: Iterable[StoredSink]) -> PutAge:
    """Return the broker's own clock, and the machine's, when they were last known."""
    if not damage.reports(AGE):
        return damage.state.one(AGE) or PutAge()
    tails = [tail for sink in sinks for tail in sink.tails.values()]
    youngest = max(tails, key=lambda tail: tail.age_us, default=Tail())
    clocks = PutAge(youngest.age_us, youngest.accepted_at_us)
    put(damage.state.store, AGE, clocks)
    return clocks
