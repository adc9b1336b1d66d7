"""State of a store as stored, including damaged parts.

A corrupt value is represented as ``None``. Where a part of the family cannot be read at all, the family is rewritten
first, and the lost ranges are reported: values missing there were damaged, not deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from forebay.broker.core.epochs.values import ProducerRecord, StagedPage, StageRecord, StoredEpochs
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.repair import IndexDamaged
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.writes import SchemaRecord, SinkRecord, SubscriptionRecord
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records import codec, keys, kinds
from forebay.broker.storage.store.contract import Family, Store

_T = TypeVar("_T")
_SLICE: Final = 1_000
NOT_READ: Final = frozenset({keys.SINK, keys.SLOT, keys.EPOCH, keys.EPOCH_STAGES, keys.PLACING})
OF_SINKS: Final = tuple(kind for kind in keys.OF_SINKS if kind not in NOT_READ)
"""Kinds that belong to a sink."""
KINDS: Final = tuple(kind.prefix for kind in kinds.KINDS if kind.at_start)
"""Kinds that a start reads. Slots are read when their writer connects, epochs on request."""


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
    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    stages: dict[int, StageRecord] = field(default_factory=dict)
    staged: dict[int, dict[tuple[int, int], StagedPage]] = field(default_factory=dict)
    """Pages by the number of their stage, then by partition and sequence."""

    @property
    def epochs(self) -> StoredEpochs:
        """Its producers, and what they have staged."""
        return StoredEpochs(self.producers.values(), self.stages.values(), self.staged)

    schemas: dict[int, SchemaRecord] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """Number of partitions, even if the stored number is wrong."""
        staged = [partition for pages in self.staged.values() for partition, _ in pages]
        seen = max([-1, *self.tails, *self.heads, *staged, *(partition for _, partition in self.cursors)]) + 1
        settings, wrong = self.record.settings.corrected()
        return max(settings.partitions, seen) if wrong else settings.partitions

    def cursors_by_partition(self) -> dict[int, dict[str, Cursor]]:
        """Return the cursors of each partition by subscription, as of now, in one pass."""
        found: dict[int, dict[str, Cursor]] = {}
        for (name, partition), cursor in self.cursors.items():
            found.setdefault(partition, {})[name] = cursor
        return found

    def handed_out(self, partition: int) -> int:
        """Return the end of the offsets that may have been assigned, including those only in memory."""
        tail, reserve = self.tails.get(partition, Tail()), self.reserves.get(partition)
        return max(tail.next_offset, reserve.end if reserve is not None else 0)


class State:
    """All state but slots, in memory."""

    def __init__(self, store: Store) -> None:
        """Read it. Raises ``StoreFailed``, and ``StoreCorrupt`` where writing it anew did not help."""
        self.store = store
        self.lost: list[tuple[bytes, bytes]] = []
        """Ranges of keys that could not be read."""
        self.index_lost: list[tuple[bytes, bytes]] = []
        """The same, of the index, as far as it was looked at."""
        self._copies: dict[int, SinkRecord] | None = None
        try:
            self._items = self._read()
        except StoreCorrupt:
            self.lost = store.rewrite(Family.META, list(self._expected()))
            self._items = self._read()

    def _read(self) -> dict[bytes, dict[bytes, bytes]]:
        return {kind: dict(_scan(self.store, Family.META, *keys.of_kind(kind))) for kind in KINDS}

    def _expected(self) -> Iterator[bytes]:
        """Keys that ought to be there: some can be read although nothing around them can."""
        yield from (keys.STORE, keys.START, keys.HIGHEST, keys.NEXT_SINK, keys.AGE, keys.COUNTING, keys.STOPPED)
        for number, sink in self.copies().items():
            yield keys.sink(number)
            for partition in range(sink.settings.corrected()[0].partitions):
                yield keys.partition(keys.TAIL, number, partition)
                yield keys.partition(keys.HEAD, number, partition)
                yield keys.cursor(number, "default", partition)

    def copies(self) -> dict[int, SinkRecord]:
        """The sinks as the index family knows them."""
        if self._copies is None:
            self._copies = {}
            for key, value in self.index(lambda: list(_scan(self.store, Family.INDEX, *keys.sink_copies()))):
                with suppress(codec.Undecodable):
                    record = codec.decode_sink(value)
                    self._copies[keys.place_of(key)[1]] = record
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

    def one(self, key: bytes, decode: Callable[[bytes], _T]) -> tuple[_T | None, bool]:
        """A value of the store's own, and whether it is damaged."""
        value = self._items[key[:1]].get(key)
        if value is None:
            return None, self.is_lost(key)
        return decoded(value, decode), decoded(value, decode) is None

    def all(self, kind: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Keys and values of a kind, in order."""
        return self._items[kind].items()

    @property
    def empty(self) -> bool:
        """Nothing was ever stored."""
        return not self.lost and not any(self._items.values())


def decoded(value: bytes, decode: Callable[[bytes], _T]) -> _T | None:
    """A stored value, None where it does not check out."""
    try:
        return decode(value)
    except codec.Undecodable:
        return None


def _scan(store: Store, family: Family, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    while True:
        found = store.scan(family, first, end, _SLICE)
        yield from found
        if len(found) < _SLICE:
            return
        first = found[-1][0] + b"\0"
