"""State of a store as stored, including damaged parts.

A corrupt value is represented as ``None``. Where a part of the family cannot be read at all, the family is rewritten
first, and the lost ranges are reported: values missing there were damaged, not deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from forebay.broker.core.partition.repair import IndexDamaged
from forebay.broker.core.writes import SinkRecord
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.registry import BY_PREFIX
from forebay.broker.storage.records.sealed import V
from forebay.broker.storage.records.sinks.sink import SINK, SINK_COPY
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import Family, Store

_T = TypeVar("_T")


class State:
    """State of a store in memory, without the slots of writers."""

    def __init__(self, store: Store) -> None:
        """Read it. Raises ``StoreFailed``, and ``StoreCorrupt`` where a rewrite did not help."""
        self.store = store
        self.lost: list[tuple[bytes, bytes]] = []
        """Ranges of keys that could not be read."""
        self.index_lost: list[tuple[bytes, bytes]] = []
        """The same of the index, as far as it was read."""
        self._copies: dict[int, SinkRecord] | None = None
        try:
            self._items = self._read()
        except StoreCorrupt:
            self.lost = store.rewrite(Family.META, list(self._expected()))
            self._items = self._read()

    def _read(self) -> dict[bytes, dict[bytes, bytes]]:
        read = (kind for kind in BY_PREFIX.values() if kind.at_start)
        return {kind.prefix: dict(scan_all(self.store, Family.META, *kind.under())) for kind in read}

    def _expected(self) -> Iterator[bytes]:
        """Return keys that should exist: some can be read singly although a scan around them fails."""
        yield from (kind.key() for kind in BY_PREFIX.values() if kind.of_store)
        for number, sink in self.copies().items():
            yield SINK.key(number)
            for partition in range(sink.settings.corrected()[0].partitions):
                yield TAIL.key(number, partition)
                yield HEAD.key(number, partition)
                yield CURSOR.key(number, partition, "default")

    def copies(self) -> dict[int, SinkRecord]:
        """Return the copies of the sinks in the index family, by number."""
        if self._copies is None:
            self._copies = {}
            for key, value in self.index(lambda: list(scan_all(self.store, Family.INDEX, *SINK_COPY.under(0)))):
                record = SINK_COPY.decoded(value)
                if record is not None:
                    self._copies[SINK_COPY.parts(key)[1]] = record
        return self._copies

    def index(self, read: Callable[[], _T]) -> _T:
        """Return the result of ``read`` on the index, which is rewritten if it is damaged."""
        try:
            return read()
        except (StoreCorrupt, IndexDamaged):
            self.index_lost += self.store.rewrite(Family.INDEX)
            self._copies = None
            return read()

    def is_lost(self, key: bytes) -> bool:
        """Return whether a key is in an unreadable range, so that it may have existed."""
        return any(first <= key < end for first, end in self.lost)

    def one(self, kind: Kind[V]) -> V | None:
        """Return a value of the store as a whole, None if it is missing or damaged."""
        value = self._items[kind.prefix].get(kind.key())
        return None if value is None else kind.decoded(value)

    def is_damaged(self, kind: Kind[Any]) -> bool:
        """Return whether a value of the store as a whole is damaged, or in a range that could not be read."""
        value = self._items[kind.prefix].get(kind.key())
        return self.is_lost(kind.key()) if value is None else kind.decoded(value) is None

    def all(self, kind: Kind[Any]) -> Iterable[tuple[bytes, bytes]]:
        """Return keys and values of a kind, in order."""
        return self._items[kind.prefix].items()

    @property
    def empty(self) -> bool:
        """True if nothing was ever stored."""
        return not self.lost and not any(self._items.values())
