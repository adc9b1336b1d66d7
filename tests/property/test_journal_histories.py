"""Histories of a journal with several owners: delays, lost answers, takeovers in the middle of an append, trims.

Whatever happens, every reader takes the same batches in the same order: each confirmed one once, in the order of the
confirmations, and nothing that an owner has confirmed after it was fenced. A broker that starts on an empty disk, from
checkpoint and journal, has what a reader of the untrimmed journal has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.storage.replication import owner as owners
from forebay.broker.storage.replication import read_ahead
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.takeover import take_over as contend
from forebay.broker.storage.replication.owner import Fenced, Owner
from forebay.broker.storage.replication.pieces import Piece, Pieces
from forebay.broker.storage.replication.reader import Trimmed
from forebay.broker.storage.replication.record import RecordKind
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.journals import NUMBER, NumberCheckpoints, NumberReplica, read_all

FAULTS = st.sampled_from(["none", "none", "lost request", "lost answer", "takeover", "late"])
SLOTS = st.integers(0, 2)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=3)
"""Halves of a chunk in each of the groups that are open at once."""
KILLS = st.one_of(st.none(), st.integers(0, 12))
"""Changes of a trim before its process is killed."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SLOTS, SIZES, st.lists(FAULTS, max_size=6)),
        st.tuples(st.just("take over"), SLOTS),
        st.tuples(st.just("take over with a replica"), SLOTS, st.booleans()),
        st.tuples(st.just("follow"), SLOTS),
        st.tuples(st.just("checkpoint"), SLOTS, KILLS),
        st.tuples(st.just("start on an empty disk"), SLOTS),
        st.tuples(st.just("start again"), SLOTS),
    ),
    max_size=16,
)


class Witness(MemoryEngine):
    """Engine that remembers what was created first at each position: the journal without its trims."""

    def __init__(self) -> None:
        super().__init__()
        self.untrimmed = MemoryEngine()

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        try:
            return super().create(position, pieces)
        finally:
            if (there := self.records.get(position)) is not None:
                self.untrimmed.records.setdefault(position, there)


class Run:
    """One history: owners and replicas by their slot, the faults of the next calls, and what was confirmed."""

    def __init__(self) -> None:
        self.engine = Witness()
        self.engine.before_create = self._fail
        self.engine.before_trim = self._kill
        self._checkpoints = NumberCheckpoints(self.engine)
        self._names = count(1)
        self._numbers = count(1)
        self._owners: dict[int, Owner] = {}
        self._replicas = {slot: NumberReplica(self.engine) for slot in range(3)}
        self._faults: list[str] = []
        self._late: list[tuple[int, bytes]] = []
        self._changes_left: int | None = None
        self._trims_meanwhile = False
        self.confirmed: list[int] = []
        self.appended: set[int] = set()

    def do(self, kind: str, slot: int, *given: Any) -> None:
        """Do one step."""
        match kind:
            case "append":
                self.append(slot, *given)
            case "take over":
                self.take_over(slot)
            case "take over with a replica":
                self.take_over_with(slot, *given)
            case "follow":
                self.follow(slot)
            case "checkpoint":
                self.checkpoint(slot, *given)
            case "start on an empty disk":
                self._replicas[slot] = self._checkpoints.load()
            case "start again":
                self._replicas[slot] = self._replicas[slot].again()
        self.let_late_ones_arrive()

    def take_over(self, slot: int) -> None:
        """Make an owner by a replica on an empty disk; the one before it in this slot is given up."""
        with self._without_faults():
            fresh = self._checkpoints.load()
            self._contend(slot, fresh)

    def take_over_with(self, slot: int, trims_meanwhile: bool) -> None:
        """Let a replica try, which may be far behind; others may follow and trim between its look and its fence."""
        self._trims_meanwhile = trims_meanwhile
        try:
            self._contend(slot, self._replicas[slot])
        except Trimmed:
            self._replicas[slot] = self._checkpoints.load()
        finally:
            self._trims_meanwhile = False

    def _contend(self, slot: int, replica: NumberReplica) -> None:
        owner = contend(replica.reader, replica.read, next(self._names).to_bytes(16, "big"), "", lambda: 0.0)
        if owner is not None:
            if slot in self._owners:
                self._owners[slot].close()
            self._owners[slot] = owner

    def follow(self, slot: int) -> None:
        """Let a replica read to the end, from the newest checkpoint on where it is behind."""
        try:
            self._replicas[slot].read()
        except Trimmed:
            self._replicas[slot] = self._checkpoints.load()
            self._replicas[slot].read()

    def checkpoint(self, slot: int, changes: int | None) -> None:
        """Make a checkpoint of a replica that has read to the end, and trim, perhaps not to its end."""
        self.follow(slot)
        self._changes_left = changes
        try:
            self._checkpoints.make(self._replicas[slot])
        except EngineAway:
            self._replicas[slot] = self._replicas[slot].again()
        finally:
            self._changes_left = None

    def append(self, slot: int, sizes: list[int], faults: list[str]) -> None:
        """Append batches together by an owner that may have been fenced."""
        if slot not in self._owners:
            return
        owner, opened = self._owners[slot], []
        self._faults = list(faults)
        with suppress(Fenced):
            for number, size in self._numbered(sizes):
                opened.append((number, owner.begin(self._frame(number, size))))
        with suppress(Fenced):
            for number, group in opened:
                owner.finish(group)
                self.confirmed.append(number)
        self._faults = []

    def _numbered(self, sizes: list[int]) -> Iterator[tuple[int, int]]:
        for size in sizes:
            number = next(self._numbers)
            self.appended.add(number)
            yield number, size

    def _frame(self, number: int, size: int) -> Pieces:
        return encode(Batch([(b"", b"x" * (size * owners.CHUNK_BYTES // 2))], [_put(number)]))

    def _fail(self, position: int, record: bytes) -> None:
        if record[4] == RecordKind.FENCE and self._trims_meanwhile:
            self._trims_meanwhile = False
            with self._without_faults():
                made = self._checkpoints.load()
                made.read()
                self._checkpoints.make(made)
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

    def _kill(self, position: int) -> None:
        if self._changes_left is not None:
            self._changes_left -= 1
            if self._changes_left < 0:
                raise EngineAway("the broker was killed")

    def let_late_ones_arrive(self) -> None:
        """Create the records whose requests were held up, where nothing is."""
        with self._without_faults():
            for position, record in self._late:
                self.engine.create(position, [record])
        self._late = []

    @contextmanager
    def _without_faults(self) -> Iterator[None]:
        held, self._faults, self.engine.lost_answers = self._faults, [], 0
        yield
        self._faults = held

    def on_an_empty_disk(self) -> list[int]:
        """The numbers that a broker has which starts from checkpoint and journal."""
        replica = self._checkpoints.load()
        replica.read()
        return replica.numbers

    def replicas(self) -> list[list[int]]:
        """The numbers of the replicas that are not behind the horizon."""
        found = []
        for replica in self._replicas.values():
            try:
                replica.read()
                replica.reader.check()
            except Trimmed:
                continue
            found.append(replica.numbers)
        return found

    def close(self) -> None:
        """End the owners."""
        for owner in self._owners.values():
            owner.close()


def _put(number: int) -> Put:
    return Put(Family.META, NUMBER, number.to_bytes(8, "big"))


@settings(max_examples=300)
@given(STEPS)
def test_readers_take_each_confirmed_batch_once_and_in_order_whatever_is_trimmed(steps: list[tuple[Any, ...]]) -> None:
    run = Run()
    with (
        patch.object(owners, "CHUNK_BYTES", 32),
        patch.object(owners, "RETRY_FIRST_S", 0.0),
        patch.object(read_ahead, "AHEAD_RECORDS", 3),
    ):
        try:
            run.take_over(0)
            for step in steps:
                run.do(*step)
            found = run.on_an_empty_disk()
        finally:
            run.close()

    assert len(found) == len(set(found))
    assert [number for number in found if number in run.confirmed] == run.confirmed
    assert set(found) <= run.appended
    assert found == read_all(run.engine.untrimmed)
    for numbers in run.replicas():
        assert numbers == found
