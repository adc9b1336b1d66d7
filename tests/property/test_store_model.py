"""Random work on both stores: they agree with each other, through reopens and power losses."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks.store import RocksStore

pytestmark = pytest.mark.timeout(300)  # hundreds of stores are opened and closed, each with its syncs

KEYS = st.binary(max_size=3).map(lambda key: bytes(byte % 4 for byte in key))
VALUES = st.binary(max_size=8)
FAMILIES = st.sampled_from(Family)
RANGES = st.tuples(KEYS, KEYS).map(sorted)
OPERATIONS = st.one_of(
    st.builds(Put, st.sampled_from([Family.SMALL, Family.INDEX, Family.META]), KEYS, VALUES),
    st.builds(Delete, FAMILIES, KEYS),
    st.builds(lambda family, pair: DeleteRange(family, *pair), FAMILIES, RANGES),
)
END = b"\xff"


class BothStores(RuleBasedStateMachine):
    """Does everything to a store on disk and to one in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.disk = RocksStore(self.directory / "store")
        self.memory = MemoryStore()

    def teardown(self) -> None:
        self.disk.close()
        shutil.rmtree(self.directory)

    @rule(operations=st.lists(OPERATIONS, max_size=6))
    def write(self, operations: list[Operation]) -> None:
        self.disk.write(operations)
        self.memory.write(operations)

    @rule(items=st.dictionaries(KEYS, VALUES, max_size=4))
    def ingest(self, items: dict[bytes, bytes]) -> None:
        highest = max(self.memory.highest_keys(), default=None)
        above = [(key, items[key]) for key in sorted(items) if highest is None or key > highest]
        self.disk.ingest(above)
        self.memory.ingest(above)

    @rule(pair=RANGES, limit=st.integers(1, 5))
    def list_bulk(self, pair: list[bytes], limit: int) -> None:
        first, end = pair
        assert self.disk.bulk_keys(first, end, limit) == self.memory.bulk_keys(first, end, limit)

    @rule()
    def sync(self) -> None:
        self.disk.sync()
        self.memory.sync()

    @rule(family=FAMILIES, pair=RANGES)
    def compact(self, family: Family, pair: list[bytes]) -> None:
        self.disk.compact(family, *pair)
        self.memory.compact(family, *pair)

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = RocksStore(self.directory / "store")
        self.memory = self.memory.reopen()

    @rule(family=FAMILIES, pair=RANGES, limit=st.integers(1, 5), reverse=st.booleans())
    def scan(self, family: Family, pair: list[bytes], limit: int, reverse: bool) -> None:
        first, end = pair
        found = self.disk.scan(family, first, end, limit, reverse=reverse)
        assert found == self.memory.scan(family, first, end, limit, reverse=reverse)

    @rule(family=FAMILIES, keys=st.lists(KEYS, max_size=5))
    def get_many(self, family: Family, keys: list[bytes]) -> None:
        assert self.disk.get_many(family, keys) == self.memory.get_many(family, keys)

    @rule()
    def name_every_file(self) -> None:
        assert sorted(self.disk.highest_keys()) == sorted(self.memory.highest_keys())

    @invariant()
    def all_entries_agree(self) -> None:
        for family in Family:
            assert self.disk.scan(family, b"", END, 1_000) == self.memory.scan(family, b"", END, 1_000)


BothStores.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestBothStores = BothStores.TestCase


class PowerLosses(RuleBasedStateMachine):
    """Compares a ``MemoryStore`` with the list of everything done to it since the last sync."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.done: list[tuple[str, list[Operation] | list[tuple[bytes, bytes]]]] = []
        self.unsynced_from = 0

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=6))
    def write(self, operations: list[Operation]) -> None:
        self.store.write(operations)
        self.done.append(("write", operations))

    @rule(items=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
    def ingest(self, items: dict[bytes, bytes]) -> None:
        highest = max(self.store.highest_keys(), default=None)
        above = [(key, items[key]) for key in sorted(items) if highest is None or key > highest]
        self.store.ingest(above)
        self.done.append(("ingest", above))

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.unsynced_from = len(self.done)

    @rule()
    def reopen(self) -> None:
        self.store = self.store.reopen()

    @rule(kept=st.integers(0, 3))
    def lose_power(self, kept: int) -> None:
        batches = 0
        left = self.done[: self.unsynced_from]
        for step in self.done[self.unsynced_from :]:
            batches += step[0] == "write"
            if step[0] == "ingest" or batches <= kept:
                left.append(step)
        self.done, self.unsynced_from = left, len(left)
        self.store = self.store.crash(kept_batches=kept)

    @invariant()
    def the_store_is_what_was_done(self) -> None:
        expected: dict[Family, dict[bytes, bytes]] = {family: {} for family in Family}
        for _, step in self.done:
            for each in step:
                match each:
                    case Put(family, key, value):
                        expected[family][key] = value
                    case Delete(family, key):
                        expected[family].pop(key, None)
                    case DeleteRange(family, first, end):
                        for key in [key for key in expected[family] if first <= key < end]:
                            del expected[family][key]
                    case (key, value):
                        expected[Family.BULK][key] = value
        for family in Family:
            assert self.store.scan(family, b"", END, 1_000) == sorted(expected[family].items())


PowerLosses.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPowerLosses = PowerLosses.TestCase
