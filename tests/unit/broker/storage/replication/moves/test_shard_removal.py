"""Removal of a shard: what is refused, whom it stops, what is left of the journal, and what a kill leaves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.shards import ShardHint
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.moves.errors import (
    JournalInUse,
    JournalMissing,
    JournalNeeded,
    RemovalFailed,
    ShardMissing,
    ShardNotEmpty,
)
from forebay.broker.storage.replication.moves.shard_removal import Removed, unsettled_records
from forebay.broker.storage.replication.record import RecordKind, decode_header
from forebay.broker.storage.replication.replica import ReplicaUnusable
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.checkpointed import Checkpointed, own
from tests.support.storage.disk_directory import END, NAMES
from tests.support.storage.moved import SILENCE_S, Killed, KillingEngine, Waits, moved_out, own_new, removed

PUT = Put(Family.META, b"later", b"1")


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def fleet() -> ShardDirectory:
    """The directory of a fleet with the shards ``a`` and ``b``."""
    directory = ShardDirectory(MemoryEngine)
    for shard in "ab":
        directory.put(ShardHint(shard, "h:1", 1))
    return directory


def shards_in(fleet: ShardDirectory) -> list[str]:
    return [hint.shard for hint in fleet.read()]


def kinds(engine: MemoryEngine) -> list[RecordKind]:
    return [decode_header(engine.records[position]).kind for position in sorted(engine.records)]


def settle(store: ReplicatedStore) -> None:
    """Settle every record of a filled store."""
    cursors = [(sink, name) for sink in range(1, len(NAMES) + 1) for name in ("default", "second")]
    store.commit([], [CURSOR.put(CURSOR.key(sink, 0, name), Cursor(watermark=END)) for sink, name in cursors])


def test_a_shard_whose_records_are_settled_is_removed(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        shard.check_point()
        settle(shard.store)

    made = removed(fleet, engine, tmp_path / "work")

    assert made == Removed("b", "memory://", sinks=3, was_removed=False, journal_deleted=False)
    assert shards_in(fleet) == ["a"]
    assert kinds(engine)[-1] is RecordKind.EXPORT


def test_unsettled_records_are_refused_with_their_sinks_before_anything_is_changed(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    with closing(Checkpointed(engine, tmp_path / "a").store):
        before = dict(engine.records)

        with pytest.raises(ShardNotEmpty, match=r"'b' has unsettled records in first \(240\), second \(240\)") as found:
            removed(fleet, engine, tmp_path / "work")

        assert engine.records == before
    assert found.value.unsettled == dict.fromkeys(NAMES, 240)
    assert shards_in(fleet) == ["a", "b"]


def test_records_that_were_settled_in_memory_hide_no_unsettled_ones(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    """The stored end of a partition may be below its cursors after a kill."""
    with closing(Checkpointed(engine, tmp_path / "a").store) as store:
        settle(store)
        beyond = Cursor(watermark=END - 50, beyond=(Range(END, END + 50),))
        store.commit([], [CURSOR.put(CURSOR.key(1, 0, "default"), beyond)])
        store.commit([], [CURSOR.put(CURSOR.key(2, 0, "default"), Cursor(watermark=END + 99))])

        assert dict(unsettled_records(store)) == {**dict.fromkeys(NAMES, 0), "first": 50}


def test_a_shard_that_was_exported_with_its_records_is_removed_and_its_journal_kept(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    Checkpointed(engine, tmp_path / "a").store.close()
    moved_out(engine, tmp_path / "out")

    with pytest.raises(JournalNeeded, match="without --delete-journal"):
        removed(fleet, engine, tmp_path / "work", deletes_journal=True)
    assert shards_in(fleet) == ["a", "b"]
    removed(fleet, engine, tmp_path / "again")

    assert shards_in(fleet) == ["a"]


def test_the_sinks_that_are_named_are_bounded() -> None:
    error = ShardNotEmpty("b", {f"sink-{number:02}": 1_000 for number in range(12)})

    assert "sink-09 (1,000) and 2 more;" in str(error)
    assert "sink-10" not in str(error)


def test_an_owner_that_appends_is_refused_and_not_fenced(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    with closing(own(engine, tmp_path / "a")) as store:
        with pytest.raises(JournalInUse, match="in use by the broker at here:1"):
            removed(fleet, engine, tmp_path / "work", Waits(lambda: store.commit([], [PUT])))

        store.commit([], [PUT])
    assert shards_in(fleet) == ["a", "b"]


def test_a_record_that_is_published_right_before_the_fence_is_refused_and_kept(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    settle(shard.store)

    def publish_and_end() -> None:
        shard.store.commit([], [TAIL.put(TAIL.key(1, 0), Tail(END + 1))])
        shard.store.close()

    with pytest.raises(ShardNotEmpty, match=r"first \(1\)"):
        removed(fleet, engine, tmp_path / "work", before_removal=publish_and_end)

    assert RecordKind.EXPORT not in kinds(engine)
    assert shards_in(fleet) == ["a", "b"]
    with closing(own_new(engine, tmp_path / "next")) as store:
        assert dict(unsettled_records(store))["first"] == 1


def test_an_owner_that_was_frozen_confirms_nothing_afterwards(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    waits = Waits()
    with closing(own(engine, tmp_path / "a")) as frozen:
        removed(fleet, engine, tmp_path / "work", waits)

        with pytest.raises(StoreFailed, match="append to the journal"):
            frozen.commit([], [PUT])
    assert waits.now >= 100 + SILENCE_S


@pytest.mark.parametrize("deletes_journal", [False, True])
def test_no_broker_takes_the_shard_over_afterwards(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path, deletes_journal: bool
) -> None:
    own(engine, tmp_path / "a").close()

    removed(fleet, engine, tmp_path / "work", deletes_journal=deletes_journal)

    before = dict(engine.records)
    with pytest.raises(ReplicaUnusable, match="was removed from its fleet"):
        own_new(engine, tmp_path / "new")
    assert engine.records == before


def test_the_store_of_a_removed_shard_is_exported(engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        settle(shard.store)
    removed(fleet, engine, tmp_path / "work")

    made = moved_out(engine, tmp_path / "out")

    assert (made.sinks, made.was_ended) == (3, True)


def test_of_a_deleted_journal_what_stops_former_owners_is_left(fleet: ShardDirectory, tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        shard.check_point()
        settle(shard.store)
    full = sum(size for _, size in engine.sizes(0, 1 << 63)) + size_of(tmp_path / "journal" / "files")

    made = removed(fleet, engine, tmp_path / "work", deletes_journal=True)

    assert made.journal_deleted
    left = [record for position, _ in engine.sizes(0, 1 << 63) if (record := engine.read(position)) is not None]
    assert {decode_header(record).kind for record in left} == {RecordKind.FENCE, RecordKind.EXPORT}
    assert sum(map(len, left)) + size_of(tmp_path / "journal" / "files") < min(full, 64 << 10)
    with pytest.raises(ReplicaUnusable, match="was removed from its fleet"):
        own_new(engine, tmp_path / "new")


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("point", ["EXPORT", "marks", "voided"])
@pytest.mark.parametrize("moment", ["killed_before", "killed_after"])
def test_a_removal_that_was_killed_is_completed_by_the_next_one(
    fleet: ShardDirectory, tmp_path: Path, point: str, moment: str
) -> None:
    engine = KillingEngine()
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        settle(shard.store)
    setattr(engine, moment, point)
    with pytest.raises(Killed):
        removed(fleet, engine, tmp_path / "killed", deletes_journal=True)
    setattr(engine, moment, "")

    removed(fleet, engine, tmp_path / "work", deletes_journal=True)

    assert shards_in(fleet) == ["a"]
    assert set(kinds(engine)) == {RecordKind.FENCE, RecordKind.EXPORT}


def test_a_second_removal_says_so_and_may_delete_the_journal(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    own(engine, tmp_path / "a").close()
    removed(fleet, engine, tmp_path / "one")

    again = removed(fleet, engine, tmp_path / "two")
    deleted = removed(fleet, engine, tmp_path / "three", deletes_journal=True)
    once_more = removed(fleet, engine, tmp_path / "four", deletes_journal=True)

    assert (again.was_removed, again.journal_deleted) == (True, False)
    assert (deleted.was_removed, deleted.journal_deleted) == (True, True)
    assert once_more == deleted


def test_a_hint_that_a_former_owner_wrote_once_more_is_removed(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    own(engine, tmp_path / "a").close()
    removed(fleet, engine, tmp_path / "one")
    fleet.put(ShardHint("b", "h:1", 1))

    assert not removed(fleet, engine, tmp_path / "two").was_removed
    assert shards_in(fleet) == ["a"]


@pytest.mark.parametrize("journal", [None, MemoryEngine()])
def test_a_hint_without_a_journal_is_removed(
    fleet: ShardDirectory, tmp_path: Path, journal: MemoryEngine | None
) -> None:
    made = removed(fleet, journal, tmp_path / "work", deletes_journal=True)

    assert (made.journal, made.sinks, made.journal_deleted) == ("", 0, False)
    assert shards_in(fleet) == ["a"]


def test_a_shard_whose_journal_is_not_there_is_refused_since_it_may_not_be_mounted(
    fleet: ShardDirectory, tmp_path: Path
) -> None:
    fleet.put(ShardHint("b", "h:1", 2, journal="0f"))

    with pytest.raises(JournalMissing, match="may not be mounted here"):
        removed(fleet, None, tmp_path / "work")

    assert shards_in(fleet) == ["a", "b"]


def test_a_name_that_the_fleet_does_not_have_is_missing(fleet: ShardDirectory, tmp_path: Path) -> None:
    fleet.remove("b")

    with pytest.raises(ShardMissing, match=r"the fleet with the journal memory:// has no shard 'b'"):
        removed(fleet, None, tmp_path / "work")


def test_damaged_state_of_the_shard_ends_the_removal(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path
) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        shard.store.commit([], [Put(Family.META, CURSOR.key(1, 0, "default"), b"no cursor")])

    with pytest.raises(StoreFailed, match="remove the shard"):
        removed(fleet, engine, tmp_path / "work")
    assert shards_in(fleet) == ["a", "b"]


def test_an_outage_during_the_deletion_of_the_journal_is_raised(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(engine, tmp_path / "a").close()

    def away(name: str, content: bytes) -> bool:
        raise EngineAway("no route")

    monkeypatch.setattr(engine, "create_named", away)
    with pytest.raises(EngineAway, match="no route"):
        removed(fleet, engine, tmp_path / "work", deletes_journal=True)
    assert shards_in(fleet) == ["a"]


def test_a_journal_that_cannot_be_trimmed_is_an_error(
    engine: MemoryEngine, fleet: ShardDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(engine, tmp_path / "a").close()
    monkeypatch.setattr(
        "forebay.broker.storage.replication.checkpoints.job.inspect", lambda *_: "page 7 has another checksum"
    )

    with pytest.raises(RemovalFailed, match="page 7 has another checksum"):
        removed(fleet, engine, tmp_path / "work", deletes_journal=True)
