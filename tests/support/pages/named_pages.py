"""What names the pages of a store: each is indexed, staged, due or kept aside, and no page is two of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from forebay.broker.core.writes import WHOLE_SINK
from forebay.broker.storage.records import codec, keys
from forebay.broker.storage.store.contract import Family, Store

Page = tuple[int, int, int, bool]
"""Sink, partition, number, and whether it is bulk."""
_ALL = b"\xff" * 64
MANY = 10_000_000


def wrong_names(store: Store) -> list[str]:
    """What is wrong with the names of pages, as sentences; a broker that uses the store must have nothing to write."""
    stored = set(stored_pages(store))
    named = Counter(named_pages(store))
    due = Counter(page for page in stored for _ in _dues_of(store, page))
    wrong = [f"page {page} is named, and not stored" for page in named if page not in stored]
    wrong += [f"page {page} is stored, and nothing names it" for page in stored if not named[page] and not due[page]]
    wrong += [f"page {page} is named and due" for page in stored if named[page] and due[page]]
    wrong += [f"page {page} is named {times} times" for page, times in named.items() if times > 1]
    wrong += [f"page {page} is due {times} times" for page, times in due.items() if times > 1]
    return sorted(wrong)


def stored_pages(store: Store) -> Iterator[Page]:
    """Every page whose bytes are there."""
    for key, _ in store.scan(Family.SMALL, b"", _ALL, MANY):
        sink, partition, number = keys.place_of(key)
        yield sink, partition, number, False
    for key in store.bulk_keys(b"", _ALL, MANY):
        number, sink, partition = keys.bulk_of(key)
        yield sink, partition, number, True


def named_pages(store: Store) -> Iterator[Page]:
    """Pages that are indexed, staged or kept aside, once for each name."""
    for key, value in store.scan(Family.INDEX, b"", _ALL, MANY):
        sink, partition, base = keys.place_of(key)
        if sink:
            entry = codec.decode_entry(base, value)
            yield sink, partition, entry.number, entry.bulk
    for key, value in store.scan(Family.META, *keys.of_kind(keys.STAGED), MANY):
        _, partition, _ = keys.staged_of(key)
        page = codec.decode_staged(value)
        yield keys.sink_of(key), partition, page.number, page.bulk
    for key, value in store.scan(Family.META, *keys.of_kind(keys.QUARANTINE), MANY):
        sink, partition, _ = keys.place_of(key[1:])
        entry = codec.decode_quarantined(value)
        yield sink, partition, entry.number, entry.bulk


def _dues_of(store: Store, page: Page) -> Iterator[bytes]:
    sink, partition, number, bulk = page
    for key, value in store.scan(Family.META, *keys.of_kind(keys.DUE), MANY):
        owner, at, is_bulk, first = keys.due_of(key)
        last, _ = codec.decode_due(value)
        whole = at == WHOLE_SINK and owner == sink
        orphans = bulk and (owner, at) == (0, 0) and first <= number <= last
        if is_bulk == bulk and (whole or orphans or ((owner, at) == (sink, partition) and first <= number <= last)):
            yield key
