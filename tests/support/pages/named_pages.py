"""References to the pages of a store: each is indexed, staged, due or quarantined, and only one of these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from forebay.broker.core.writes import WHOLE_SINK, Due
from forebay.broker.storage.records.epochs.stage import STAGED_PAGE
from forebay.broker.storage.records.kind import place_of
from forebay.broker.storage.records.pages.due import DUE, due_of
from forebay.broker.storage.records.pages.entry import ENTRY, decode_entry
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.store.contract import Family, Store

Page = tuple[int, int, int, bool]
"""Sink, partition, number, and whether it is bulk."""
_ALL = b"\xff" * 64
MANY = 10_000_000


def wrong_names(store: Store) -> list[str]:
    """Return the violations as sentences; a broker that uses the store must have no pending writes."""
    stored = set(stored_pages(store))
    named = Counter(named_pages(store))
    dues = _dues(store)
    due = Counter(page for page in stored for _ in _dues_of(dues, page))
    wrong = [f"page {page} is named, and not stored" for page in named if page not in stored]
    wrong += [f"page {page} is stored, and nothing names it" for page in stored if not named[page] and not due[page]]
    wrong += [f"page {page} is named and due" for page in stored if named[page] and due[page]]
    wrong += [f"page {page} is named {times} times" for page, times in named.items() if times > 1]
    wrong += [f"page {page} is due {times} times" for page, times in due.items() if times > 1]
    return sorted(wrong)


def stored_pages(store: Store) -> Iterator[Page]:
    """Every page whose bytes are there."""
    for key, _ in store.scan(Family.SMALL, b"", _ALL, MANY):
        yield *SMALL_PAGE.parts(key), False
    for key in store.bulk_keys(b"", _ALL, MANY):
        number, sink, partition = BULK_PAGE.parts(key)
        yield sink, partition, number, True


def named_pages(store: Store) -> Iterator[Page]:
    """Pages that are indexed, staged or in quarantine, once for each reference."""
    for key, value in store.scan(Family.INDEX, b"", _ALL, MANY):
        sink, partition, base = ENTRY.parts(key)
        if sink:
            entry = decode_entry(value, base)
            yield sink, partition, entry.number, entry.bulk
    for key, value in store.scan(Family.META, *STAGED_PAGE.under(), MANY):
        sink, _, partition, _ = STAGED_PAGE.parts(key)
        page = STAGED_PAGE.codec.decode(value)
        yield sink, partition, page.number, page.bulk
    for key, value in store.scan(Family.META, *QUARANTINE.under(), MANY):
        sink, partition = place_of(key)
        entry = QUARANTINE.codec.decode(value)
        yield sink, partition, entry.number, entry.bulk


def _dues(store: Store) -> dict[tuple[int, int, bool], list[Due]]:
    """Return the dues by sink, partition and whether they are about bulk pages."""
    found: defaultdict[tuple[int, int, bool], list[Due]] = defaultdict(list)
    for key, value in store.scan(Family.META, *DUE.under(), MANY):
        due = due_of(key, value)
        assert due is not None
        found[due.sink, due.partition, due.bulk].append(due)
    return found


def _dues_of(dues: Mapping[tuple[int, int, bool], list[Due]], page: Page) -> Iterator[Due]:
    sink, partition, number, bulk = page
    yield from dues.get((sink, WHOLE_SINK, bulk), ())
    places = [(sink, partition, bulk), *([(0, 0, True)] if bulk else [])]
    yield from (due for place in places for due in dues.get(place, ()) if due.first <= number <= due.last)
