"""Groups of one owner in this process, beside as many bytes that the engine gets without a journal, and a local store.

A large group has 16 pages of 1 MiB, and is open beside others, as the broker commits it under load; the engine gets as
many bytes as objects of 8 MiB, Kafka as messages of 4 MiB, four at once. A small group has one page of 4 KiB; the
engine gets one object, or message, of that size.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from forebay.broker.shard import boot_time_s
from forebay.broker.storage.records.header import HEADER_BYTES
from forebay.broker.storage.records.pages.page import key_of
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.followers.follower import Follower, Takeover
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.bench.journal.places import Place
from tests.bench.journal.raw import GROUP_BYTES, GROUP_PAGES, SMALL_BYTES
from tests.bench.processes import own_cost, own_cost_since
from tests.bench.values import MIB, Sample

ENTRY_BYTES: Final = 100
"""Bytes of a page's entry in the index, about."""
RAW, APPEND, COMMIT, LOCAL = "engine", "append", "commit", "local"
WAYS: Final = (RAW, APPEND, COMMIT, LOCAL)
"""The engine alone; append of groups to the journal; their commit, which applies them too; a local commit."""


@dataclass(frozen=True, slots=True)
class Round:
    """Figures of one round."""

    large: dict[str, Sample]
    """Large groups, by way."""

    put_s: list[float] = field(default_factory=list)
    """Seconds of each small object or message, one at a time."""

    group_s: list[float] = field(default_factory=list)
    """Seconds of each small group, committed one at a time."""


class Batches:
    """Batches with pages of random bytes, and numbers that rise."""

    def __init__(self) -> None:
        self._bodies = [os.urandom(MIB) for _ in range(GROUP_PAGES)]
        self._small = os.urandom(SMALL_BYTES)
        self._number = 0

    def large(self) -> Batch:
        """A batch of `GROUP_BYTES`, and what the index has of it."""
        keys = [key_of(1, 0, self._next(), bulk=True) for _ in self._bodies]
        bulk = [(key, (bytes(HEADER_BYTES), body)) for key, body in zip(keys, self._bodies, strict=True)]
        return Batch(bulk, [Put(Family.INDEX, key, bytes(ENTRY_BYTES)) for key in keys])

    def small(self) -> Batch:
        """A batch of one small page."""
        key = key_of(1, 0, self._next(), bulk=False)
        page, entry = Put(Family.SMALL, key, self._small), Put(Family.INDEX, key, bytes(ENTRY_BYTES))
        return Batch([], [page, entry])

    def _next(self) -> int:
        self._number += 1
        return self._number


def measure(place: Place, folder: Path, *, groups: int, smalls: int, number: int) -> Round:
    """Measure all ways in one journal, which is deleted afterwards; ``number`` turns the order of the ways."""
    journals = (f"groups-{number}", f"raw-{number}")
    raw, batches = place.raw(journals[1]), Batches()
    with owned(place.address(journals[0]), folder / journals[0]) as store, _local(folder / f"local-{number}") as local:

        def large(commit: Callable[[Batch], object]) -> None:
            for _ in range(groups):
                commit(batches.large())

        def overlapping(begin: Callable[[Batch], Callable[[], object]]) -> None:
            """Begin each beside those before it, as the broker does under load."""
            ends: deque[Callable[[], object]] = deque()
            for _ in range(groups):
                if len(ends) == window.size:
                    ends.popleft()()
                ends.append(begin(batches.large()))
            for end in ends:
                end()

        window, owner = store.window(), store.owner
        ways: dict[str, Callable[[], None]] = {
            RAW: lambda: raw.large(groups),
            APPEND: lambda: overlapping(lambda batch: partial(owner.finish, owner.begin(encode(batch)))),
            COMMIT: lambda: overlapping(lambda batch: window.begin(batch.bulk, batch.operations).finish),
            LOCAL: lambda: large(lambda batch: local.commit(batch.bulk, batch.operations)),
        }
        turn = number % len(WAYS)
        found = Round({way: _sample(ways[way], groups) for way in (*WAYS[turn:], *WAYS[:turn])})
        for _ in range(smalls):
            found.put_s.append(_seconds(raw.small))
            batch = batches.small()
            found.group_s.append(_seconds(partial(store.commit, batch.bulk, batch.operations)))
    raw.close()
    for journal in journals:
        place.remove(journal)
    return found


@contextmanager
def owned(address: str, directory: Path) -> Iterator[ReplicatedStore]:
    """Own a new journal, with a replica in a new directory, which is deleted afterwards."""
    engine, local = open_engine(address), RocksStore(directory)
    replica = Replica(local)
    takeover = Takeover(5.0, "127.0.0.1:0")
    owner = Follower(Reader(engine, replica.place), replica, directory, takeover, boot_time_s).follow(threading.Event())
    assert owner is not None, "nothing stops it"
    store = ReplicatedStore(replica, owner, engine)
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(directory)


@contextmanager
def _local(directory: Path) -> Iterator[RocksStore]:
    store = RocksStore(directory)
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(directory)


def raw_rate(place: Place, journal: str, groups: int) -> Sample:
    """Create the bytes of so many groups in a place of its own, and delete them."""
    raw = place.raw(journal)
    found = _sample(lambda: raw.large(groups), groups)
    raw.close()
    place.remove(journal)
    return found


def _sample(way: Callable[[], None], groups: int) -> Sample:
    os.sync()
    before, begun = own_cost(), time.perf_counter()
    way()
    seconds = time.perf_counter() - begun
    return Sample(groups, groups * GROUP_BYTES, seconds, own_cost_since(before))


def _seconds(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
