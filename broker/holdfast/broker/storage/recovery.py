"""What a start reads: sinks, counters, cursors, gaps, writers and the reclaim ledger. No page and no index entry.

A start count is written and synced before anything else, so page numbers and owner epochs of two starts never meet.
It is above that of every page in a file too: a damaged log takes the count back, but not the files.
Pages that no key names (a crash came between their ingest and their batch) go into the reclaim ledger.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from holdfast.broker.core.account import Totals
from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.errors import StoreFenced
from holdfast.broker.core.log import Head, Tail
from holdfast.broker.core.pages import Gap
from holdfast.broker.core.reserve import Held, Reserve
from holdfast.broker.core.retention import Marks
from holdfast.broker.core.writes import NUMBER_BITS, Due, PutDue, SinkRecord, SubscriptionRecord
from holdfast.broker.storage import codec, keys
from holdfast.broker.storage.contract import Family, Put, Store
from holdfast.broker.storage.errors import REMEDY, StoreCorrupt, StoreError
from holdfast.broker.storage.journal import Journal

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class StoredSink:
    """A sink as it was found."""

    record: SinkRecord
    tails: dict[int, Tail] = field(default_factory=dict)
    heads: dict[int, Head] = field(default_factory=dict)
    gaps: dict[int, list[Gap]] = field(default_factory=dict)
    cursors: dict[tuple[str, int], Cursor] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionRecord] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    marks: dict[int, Marks] = field(default_factory=dict)
    reserves: dict[int, Reserve] = field(default_factory=dict)
    held: dict[int, tuple[Held, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state of a store at its start."""

    journal: Journal
    start_count: int
    next_sink: int
    age_us: tuple[int, int]
    """The broker's own clock and the wall clock when it was last stored; zeros in a new store."""

    sinks: tuple[StoredSink, ...]
    due: tuple[Due, ...]


def recover(store: Store) -> Recovered:
    """Begin a start on ``store``: count it, read its state, note orphans in the ledger.

    Raises ``StoreError``: ``StoreCorrupt`` where the state cannot be read.
    """
    with _told_as_at_a_start():
        return _recover(store)


@contextmanager
def _told_as_at_a_start() -> Iterator[None]:
    """Nobody waits for anything yet: what a running broker calls fenced is the store's own error here."""
    try:
        try:
            yield
        except StoreFenced as failure:
            if isinstance(failure.__cause__, StoreError):
                raise failure.__cause__ from None
            raise
    except StoreCorrupt as damage:
        raise StoreCorrupt(damage.family, f"{damage.reason}; {REMEDY}", key=damage.key) from damage
    except codec.Undecodable as damage:
        raise StoreCorrupt(Family.META, f"{damage}; {REMEDY}") from damage


def _recover(store: Store) -> Recovered:
    [found] = store.get_many(Family.META, [keys.STORE])
    if found is None:
        store_id = secrets.token_hex(16)
        store.write([Put(Family.META, keys.STORE, codec.encode_text(store_id))])
    else:
        store_id = codec.decode_text(found)
    journal = Journal(store, bytes.fromhex(store_id))
    last = max((keys.bulk_of(key)[0] for key in store.highest_keys()), default=0)
    start_count = max(_number(store, keys.START), last >> NUMBER_BITS) + 1
    journal.put_number(keys.START, start_count)
    highest = _number(store, keys.HIGHEST)
    if last > highest:
        _log.warning("pages were found that a crash has left without a name")
        journal.commit([], [PutDue(Due(0, 0, bulk=True, first=highest + 1, last=last, size=0))])
    [clock] = store.get_many(Family.META, [keys.AGE])
    return Recovered(
        journal=journal,
        start_count=start_count,
        next_sink=max(1, _number(store, keys.NEXT_SINK)),
        age_us=codec.decode_due(clock) if clock is not None else (0, 0),
        sinks=tuple(_sinks(journal)),
        due=tuple(_due(journal)),
    )


def _number(store: Store, key: bytes) -> int:
    [value] = store.get_many(Family.META, [key])
    return codec.decode_number(value) if value is not None else 0


def _due(journal: Journal) -> list[Due]:
    due: list[Due] = []
    for key, value in journal.scan_all(Family.META, *keys.of_kind(keys.DUE)):
        sink, partition, bulk, first = keys.due_of(key)
        last, size = codec.decode_due(value)
        due.append(Due(sink, partition, bulk, first, last, size))
    return due


def _sinks(journal: Journal) -> list[StoredSink]:
    sinks: dict[int, StoredSink] = {}
    for key, value in journal.scan_all(Family.META, *keys.of_kind(keys.SINK)):
        sinks[keys.sink_of(key)] = StoredSink(codec.decode_sink(value))
    kinds = (keys.TAIL, keys.HEAD, keys.CURSOR, keys.WRITER, keys.GAP, keys.SUBSCRIPTION, keys.TOTALS, keys.MARKS)
    for kind in (*kinds, keys.RESERVE, keys.HELD):
        for key, value in journal.scan_all(Family.META, *keys.of_kind(kind)):
            sink = sinks.get(keys.sink_of(key))
            if sink is None:
                _log.warning("state without a sink was left alone kind=%d sink=%d", kind[0], keys.sink_of(key))
                continue
            _take(sink, kind, key, value)
    return [sinks[number] for number in sorted(sinks)]


def _take(sink: StoredSink, kind: bytes, key: bytes, value: bytes) -> None:
    _, partition = keys.partition_of(key) if kind not in {keys.WRITER, keys.SUBSCRIPTION} else (0, 0)
    if kind == keys.TAIL:
        sink.tails[partition] = codec.decode_tail(value)
    elif kind == keys.HEAD:
        sink.heads[partition] = codec.decode_head(value)
    elif kind == keys.CURSOR:
        _, subscription, partition = keys.cursor_of(key)
        sink.cursors[subscription, partition] = codec.decode_cursor(value)
    elif kind == keys.WRITER:
        _, writer_id = keys.writer_of(key)
        sink.writers[writer_id] = codec.decode_number(value)
    elif kind == keys.SUBSCRIPTION:
        found = codec.decode_subscription(value)
        sink.subscriptions[found.name] = found
    elif kind == keys.TOTALS:
        _, subscription, partition = keys.cursor_of(key)
        sink.totals[subscription, partition] = codec.decode_totals(value)
    elif kind == keys.MARKS:
        sink.marks[partition] = codec.decode_marks(value)
    elif kind == keys.HELD:
        sink.held[partition] = codec.decode_held(value)
    elif kind == keys.RESERVE:
        sink.reserves[partition] = codec.decode_reserve(value)
    else:
        first, subscription = keys.gap_of(key)
        sink.gaps.setdefault(partition, []).append(codec.decode_gap(first, value, subscription))
