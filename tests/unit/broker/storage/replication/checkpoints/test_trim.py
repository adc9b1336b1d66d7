"""Trims: what a journal keeps below a checkpoint, and what a former owner meets there."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from forebay.broker.storage.backup.manifest import Manifest, Piece
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.checkpoints.trim import (
    PEEKS_AT_ONCE,
    RecordMissing,
    TrimStopped,
    sweep,
    trim,
)
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine, MemoryTarget
from forebay.broker.storage.replication.followers.takeover import take_over as contend
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.owner import Fenced
from forebay.broker.storage.replication.reader import Reader, Trimmed
from forebay.broker.storage.replication.record import Header, RecordKind, decode_header, encode
from tests.support.storage.journals import NumberCheckpoints, NumberReplica, batch_of, interrupting, take_over


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def kinds(engine: MemoryEngine) -> dict[int, RecordKind]:
    return {at: decode_header(record).kind for at, record in sorted(engine.records.items())}


def checkpoint(engine: MemoryEngine) -> NumberCheckpoints:
    """Checkpoint all that is in a journal, and trim."""
    made = NumberCheckpoints(engine)
    replica = NumberReplica(engine)
    replica.read()
    made.make(replica)
    return made


def test_records_that_counted_are_deleted_and_fences_stay(engine: MemoryEngine) -> None:
    for name in (b"a", b"b"):
        with closing(take_over(engine, name)) as owner:
            for number in range(3):
                owner.append(batch_of(number))

    checkpoint(engine)

    assert kinds(engine) == {0: RecordKind.FENCE, 4: RecordKind.FENCE}


def test_an_empty_disk_gets_everything_from_checkpoint_and_journal(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        for number in range(3):
            owner.append(batch_of(number))
        made = checkpoint(engine)
        owner.append(batch_of(3))

    replica = made.load()
    replica.read()

    assert replica.numbers == [0, 1, 2, 3]


def test_a_former_owner_that_wakes_up_after_a_trim_meets_its_fence(engine: MemoryEngine) -> None:
    """A deleted fence could be created again, by the owner that it has fenced."""
    former = take_over(engine, b"a")
    former.append(batch_of(1))
    with closing(take_over(engine, b"b")) as later:
        later.append(batch_of(2))
        checkpoint(engine)

    with closing(former), pytest.raises(Fenced):
        former.append(batch_of(3))


def test_a_former_owner_that_was_refused_a_position_is_refused_it_after_a_trim(engine: MemoryEngine) -> None:
    """An older owner's late append took the position: on a free one, an unread append would succeed."""
    first = take_over(engine, b"a")
    former = take_over(engine, b"b")
    late = b"".join(encode(Header(RecordKind.CHUNK, 1, first.identity, 0), batch_of(1).data))
    engine.records[former.position] = late
    first.close()
    with closing(take_over(engine, b"c")) as later:
        later.append(batch_of(2))
        made = checkpoint(engine)
    assert kinds(engine)[former.position] is RecordKind.VOID

    with closing(former), pytest.raises(Fenced):
        former.append(batch_of(3))

    replica = made.load()
    replica.read()
    assert replica.numbers == [2]


def test_chunks_of_a_group_that_a_fence_cut_off_keep_their_positions(engine: MemoryEngine) -> None:
    former = take_over(engine, b"a")
    for chunk in range(2):
        header = Header(RecordKind.CHUNK, 1, former.identity, 0, chunk, 3)
        engine.records[former.position + chunk] = b"".join(encode(header, [b"x"]))
    former.close()
    with closing(take_over(engine, b"b")) as later:
        later.append(batch_of(1))
        checkpoint(engine)

    fence, void = RecordKind.FENCE, RecordKind.VOID
    assert kinds(engine) == {0: fence, 1: void, 2: void, 3: fence}
    assert not any(decode_header(record).kind is RecordKind.CHUNK for record in engine.records.values())


def test_a_replica_that_is_behind_the_horizon_owns_nothing_though_its_next_position_is_missing(
    engine: MemoryEngine,
) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        behind = NumberReplica(engine)
        behind.read()
        for number in range(2, 6):
            owner.append(batch_of(number))
        checkpoint(engine)
        owner.append(batch_of(6))
        before = dict(engine.records)

        with pytest.raises(Trimmed):
            contend(behind.reader, behind.read, b"z" * 16, "", lambda: 0.0)

        assert engine.records == before

        owner.append(batch_of(7))


def test_a_replica_whose_records_are_trimmed_while_it_fences_owns_nothing(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        behind = NumberReplica(engine)
        behind.read()
        made: list[NumberCheckpoints] = []

        def trim_first(position: int, record: bytes) -> None:
            if record[4] == RecordKind.FENCE and not made:
                engine.before_create = lambda position, record: None
                owner.append(batch_of(2))
                made.append(checkpoint(engine))

        engine.before_create = trim_first
        with pytest.raises(Trimmed):
            contend(behind.reader, behind.read, b"z" * 16, "", lambda: 0.0)

        owner.append(batch_of(3))
        replica = made[0].load()
        replica.read()
        assert replica.numbers == [1, 2, 3]


def test_a_record_that_a_former_owner_creates_again_below_the_horizon_is_not_read(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        behind = NumberReplica(engine)
        behind.read()
        at = owner.position
        for number in range(3):
            owner.append(batch_of(number))
        record = engine.records[at]
        checkpoint(engine)
        engine.records[at] = record

        with pytest.raises(Trimmed):
            behind.read()


@pytest.mark.parametrize("changes", range(8))
def test_a_trim_that_was_interrupted_is_completed_by_the_next_one(engine: MemoryEngine, changes: int) -> None:
    first = take_over(engine, b"a")
    for number in range(3):
        first.append(batch_of(number))
    later = take_over(engine, b"b")
    engine.records[later.position] = b"".join(encode(Header(RecordKind.CHUNK, 1, first.identity, 3), batch_of(9).data))
    for number in range(3, 6):
        later.append(batch_of(number))
    engine.before_trim = interrupting(changes)
    made, replica = NumberCheckpoints(engine), NumberReplica(engine)
    replica.read()
    try:
        made.make(replica)
    except EngineAway:
        mark = Marks(engine).refresh()
        assert mark is not None
        engine.before_trim = lambda position: None
        made.trim(mark)

    assert kinds(engine) == {0: RecordKind.FENCE, 4: RecordKind.FENCE, 5: RecordKind.VOID}
    assert made.load().numbers == list(range(6))
    for each in (first, later):
        each.close()


def test_a_trim_stops_when_it_is_asked_to_and_changes_nothing_then(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
    before = dict(engine.records)
    stop = threading.Event()
    stop.set()

    with pytest.raises(TrimStopped):
        trim(engine, ReaderPosition(), Mark(0, "0-x", 2, 1, "", 1, 0), stop)

    assert engine.records == before


class StoppingEngine(MemoryEngine):
    """Sets a stop at a request for a header."""

    def __init__(self) -> None:
        super().__init__()
        self.stop, self.peeks = threading.Event(), 0

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        self.peeks += 1
        self.stop.set()
        return super().peek(position)


def test_a_trim_that_is_stopped_asks_for_no_further_record() -> None:
    engine = StoppingEngine()
    with closing(take_over(engine, b"a")) as owner:
        for number in range(10 * PEEKS_AT_ONCE):
            owner.append(batch_of(number))

    with pytest.raises(TrimStopped):
        trim(engine, ReaderPosition(), Mark(0, "0-x", 10 * PEEKS_AT_ONCE, 1, "", 1, 0), engine.stop)

    assert 1 <= engine.peeks <= PEEKS_AT_ONCE


def test_a_record_that_something_else_has_deleted_is_named(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        for number in range(3):
            owner.append(batch_of(number))
    del engine.records[2]

    with pytest.raises(RecordMissing, match="record 2 of memory://"):
        trim(engine, ReaderPosition(), Mark(0, "0-x", 4, 1, "", 3, 0), threading.Event())


def test_a_damaged_record_is_kept_and_those_from_there_to_the_next_fence_keep_their_positions(
    engine: MemoryEngine,
) -> None:
    with closing(take_over(engine, b"a")) as owner:
        for number in range(3):
            owner.append(batch_of(number))
    later = take_over(engine, b"b")
    later.append(batch_of(3))
    made, replica = NumberCheckpoints(engine), NumberReplica(engine)
    replica.read()
    engine.records[2] = b"damaged"

    made.make(replica)

    assert engine.records.pop(2) == b"damaged"
    assert kinds(engine) == {0: RecordKind.FENCE, 3: RecordKind.VOID, 4: RecordKind.FENCE}
    engine.records[2] = b"damaged"
    later.append(batch_of(4))
    replica.read()
    made.make(replica)
    assert sorted(engine.records) == [0, 2, 3, 4]
    assert made.load().numbers == [0, 1, 2, 3, 4]
    later.close()


@pytest.mark.parametrize("changes", range(6))
def test_owners_around_a_damaged_fence_confirm_nothing_after_a_trim(engine: MemoryEngine, changes: int) -> None:
    """The trim is interrupted after some changes, and repeated."""
    first = take_over(engine, b"a")
    first.append(batch_of(0))
    cut_off = first.position
    for chunk in range(2):
        header = Header(RecordKind.CHUNK, 1, first.identity, 1, chunk, 3)
        engine.records[cut_off + chunk] = b"".join(encode(header, [b"x"]))
    second = take_over(engine, b"b")
    damaged = second.position - 1
    engine.records[second.position] = b"".join(encode(Header(RecordKind.CHUNK, 1, first.identity, 2), batch_of(9).data))
    third = take_over(engine, b"c")
    third.append(batch_of(1))
    made, replica = NumberCheckpoints(engine), NumberReplica(engine)
    replica.read()
    engine.records[damaged] = b"damaged"
    engine.before_trim = interrupting(changes)
    try:
        made.make(replica)
    except EngineAway:
        mark = Marks(engine).refresh()
        assert mark is not None
        engine.before_trim = lambda position: None
        made.trim(mark)

    assert sorted(engine.records) == [0, cut_off, cut_off + 1, damaged, damaged + 1, damaged + 2]
    for former in (first, second):
        with closing(former), pytest.raises(Fenced):
            former.append(batch_of(8))
    third.append(batch_of(2))
    again = made.load()
    again.read()
    assert again.numbers == [0, 1, 2]
    third.close()


def test_files_that_a_checkpoint_does_not_name_are_deleted_but_those_of_a_later_number() -> None:
    target = MemoryTarget()
    names = [
        *("0000000000-a/manifest", "0000000000-a/files/bulk/1.pages", "0000000000-a/files/bulk/2.pages"),
        *("0000000001-b/started", "0000000001-b/manifest", "0000000001-b/files/db/1.sst"),
        *("0000000001-c/files/db/1.sst", "0000000002-d/files/db/1.sst"),
    ]
    for name in names:
        target.put(name, [b"x"])
    kept = Piece("bulk/1.pages", 1, 0, "0000000000-a"), Piece("db/1.sst", 1, 0, "0000000001-b")
    manifest = Manifest("0000000001-b", "", "", 3, 0, 0, kept, (), 0)

    sweep(target, Mark(1, "0000000001-b", 9, 1, "", 1, 2), manifest)

    assert sorted(target.names()) == [
        "0000000000-a/files/bulk/1.pages",
        "0000000001-b/files/db/1.sst",
        "0000000001-b/manifest",
        "0000000001-b/started",
        "0000000002-d/files/db/1.sst",
    ]


def test_a_reader_behind_the_horizon_says_so(engine: MemoryEngine) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
    checkpoint(engine)

    with pytest.raises(Trimmed, match="position 0 is below the checkpoint at 2"):
        Reader(engine, ReaderPosition()).check()
