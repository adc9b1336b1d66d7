"""Histories of a journal with several owners: delays, lost answers, takeovers in the middle of an append.

Whatever happens, every reader takes the same batches in the same order: each confirmed one once, in the order of the
confirmations, and nothing that an owner has confirmed after it was fenced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.replication import owner as owners
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.owner import Fenced, Owner
from forebay.broker.storage.replication.record import RecordKind
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.journals import NUMBER, read_all, take_over

FAULTS = st.sampled_from(["none", "none", "lost request", "lost answer", "takeover", "late"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 9), st.lists(FAULTS, max_size=6)),
        st.tuples(st.just("take over"), st.integers(0, 2), st.just(0), st.just([])),
    ),
    max_size=12,
)


class Run:
    """One history: owners by their slot, the faults of the next calls, and what was confirmed."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.engine.before_create = self._fail
        self._names = count(1)
        self._numbers = count(1)
        self._owners: dict[int, Owner] = {}
        self._faults: list[str] = []
        self._late: list[tuple[int, bytes]] = []
        self.confirmed: list[int] = []
        self.appended: set[int] = set()

    def take_over(self, slot: int) -> None:
        """Make an owner; the one before it in this slot is given up."""
        with self._without_faults():
            if slot in self._owners:
                self._owners[slot].close()
            self._owners[slot] = take_over(self.engine, next(self._names).to_bytes(1, "big"))

    def append(self, slot: int, chunks: int, faults: list[str]) -> None:
        """Append a batch by an owner that may have been fenced."""
        if slot not in self._owners:
            return
        number = next(self._numbers)
        self.appended.add(number)
        filler = Put(Family.META, b"", b"x" * (chunks * owners.CHUNK_BYTES // 2))
        self._faults = list(faults)
        try:
            self._owners[slot].append(encode(Batch([(b"", filler.value)], [_put(number)])))
        except Fenced:
            return
        finally:
            self._faults = []
        self.confirmed.append(number)

    def _fail(self, position: int, record: bytes) -> None:
        fault = self._faults.pop(0) if self._faults and record[4] == RecordKind.CHUNK else "none"
        if fault == "lost request":
            raise EngineAway("the request was lost")
        if fault == "lost answer":
            self.engine.lost_answers = 1
        elif fault == "takeover":
            self.take_over(3)
        elif fault == "late":
            self._late.append((position, record))
            raise EngineAway("it arrives later")

    def let_late_ones_arrive(self) -> None:
        """Create the records whose requests were held up, where nothing is yet."""
        for position, record in self._late:
            self.engine.records.setdefault(position, record)
        self._late = []

    @contextmanager
    def _without_faults(self) -> Iterator[None]:
        held, self._faults, self.engine.lost_answers = self._faults, [], 0
        yield
        self._faults = held

    def close(self) -> None:
        """End the owners."""
        for owner in self._owners.values():
            owner.close()


def _put(number: int) -> Put:
    return Put(Family.META, NUMBER, number.to_bytes(8, "big"))


@given(STEPS)
def test_readers_take_each_confirmed_batch_once_and_in_order(
    steps: list[tuple[str, int, int, list[str]]],
) -> None:
    run = Run()
    with patch.object(owners, "CHUNK_BYTES", 32), patch.object(owners, "RETRY_FIRST_S", 0.0):
        try:
            run.take_over(0)
            for kind, slot, chunks, faults in steps:
                if kind == "append":
                    run.append(slot, chunks, faults)
                else:
                    run.take_over(slot)
                run.let_late_ones_arrive()
            found = read_all(run.engine)
        finally:
            run.close()

    assert len(found) == len(set(found))
    assert [number for number in found if number in run.confirmed] == run.confirmed
    assert set(found) <= run.appended
