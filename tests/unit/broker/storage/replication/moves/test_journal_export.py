"""Export of a journal: what the directory then has, whom it stops, what is refused, and what a kill leaves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.backup.working_folder import working_folder
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.moves import journal_end
from forebay.broker.storage.replication.moves.errors import DirectoryUnsuitable, JournalEmpty, JournalInUse
from forebay.broker.storage.replication.record import Header, RecordKind, decode_header
from forebay.broker.storage.replication.record import encode as encode_record
from forebay.broker.storage.replication.replica import ReplicaUnusable
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.checkpointed import Checkpointed, own
from tests.support.storage.disk_directory import SMALL_STORE, judged
from tests.support.storage.journals import take_over
from tests.support.storage.moved import (
    SILENCE_S,
    Killed,
    KillingEngine,
    Waits,
    data_in,
    data_of,
    filled,
    moved_in,
    moved_out,
    own_new,
)

PUT = Put(Family.META, b"later", b"1")


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def kinds(engine: MemoryEngine) -> list[RecordKind]:
    return [decode_header(engine.records[position]).kind for position in sorted(engine.records)]


def test_the_directory_has_everything_of_a_shard_that_has_stopped(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        shard.check_point()
        shard.store.commit([], [PUT])
        wanted = data_of(shard.store)

    made = moved_out(engine, tmp_path / "out")

    assert data_in(tmp_path / "out") == wanted
    assert wanted[Family.BULK]
    assert wanted[Family.META][PUT.key] == PUT.value
    assert (made.sinks, made.was_ended) == (3, False)


def test_an_exported_directory_is_closed_to_other_accounts(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    with closing(Checkpointed(engine, tmp_path / "a").store) as store:
        store.commit([], [PUT])

    moved_out(engine, tmp_path / "out")

    assert close_to_others(tmp_path / "out") == 0


def test_a_journal_without_a_checkpoint_is_exported_from_its_records(engine: MemoryEngine, tmp_path: Path) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        wanted = data_of(shard.store)

    moved_out(engine, tmp_path / "out")

    assert data_in(tmp_path / "out") == wanted


def test_a_broker_without_a_journal_serves_the_directory_above_every_owner(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    last = shard.store.owner.epoch
    shard.store.close()

    made = moved_out(engine, tmp_path / "out")

    assert made.epoch > last
    with closing(RocksStore(tmp_path / "out", settings=SMALL_STORE)) as store:
        found = recover(store)
    assert found.start_count == made.epoch + 1
    assert not found.repairs
    verdict = judged(tmp_path / "out")
    assert verdict.wrong == []
    assert not any(verdict.lost.values())


def test_an_imported_directory_returns_as_it_was(engine: MemoryEngine, tmp_path: Path) -> None:
    directory = filled(tmp_path / "old")
    imported = moved_in(engine, directory)

    exported = moved_out(engine, tmp_path / "out")

    assert data_in(tmp_path / "out") == data_in(directory)
    assert exported.epoch > imported.epoch


def test_the_export_goes_into_an_empty_directory(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    (tmp_path / "out").mkdir()

    moved_out(engine, tmp_path / "out")

    assert (tmp_path / "out" / "FORMAT").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


def test_no_broker_takes_an_exported_journal_over(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()

    moved_out(engine, tmp_path / "out")

    assert kinds(engine)[-1] is RecordKind.EXPORT
    before = dict(engine.records)
    for name in ("a", "new"):
        with pytest.raises(ReplicaUnusable, match=f"the store has left memory://, it was exported to here:{tmp_path}"):
            own(engine, tmp_path / name)
    assert engine.records == before


def test_a_former_owner_confirms_nothing_after_the_export(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(own(engine, tmp_path / "a")) as frozen:
        moved_out(engine, tmp_path / "out")

        with pytest.raises(StoreFailed, match="append to the journal"):
            frozen.commit([], [PUT])

    assert PUT.key not in data_in(tmp_path / "out")[Family.META]


def test_an_owner_that_appends_is_refused_with_its_endpoint(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(own(engine, tmp_path / "a")) as store:
        waits = Waits(lambda: store.commit([], [PUT]))

        with pytest.raises(JournalInUse, match=r"in use by the broker at here:1 with owner epoch 1"):
            moved_out(engine, tmp_path / "out", waits)

        store.commit([], [PUT])  # it is not fenced
    assert not (tmp_path / "out").exists()
    assert RecordKind.EXPORT not in kinds(engine)


def test_an_owner_that_stops_while_it_is_waited_for_is_exported_at_once(engine: MemoryEngine, tmp_path: Path) -> None:
    store = own(engine, tmp_path / "a")
    waits = Waits(store.close)

    moved_out(engine, tmp_path / "out", waits)

    assert waits.now < 100 + SILENCE_S


def test_an_owner_that_was_killed_is_exported_after_its_silence(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(encode(Batch([], [PUT])))
    waits = Waits()

    moved_out(engine, tmp_path / "out", waits)

    assert waits.now >= 100 + SILENCE_S
    assert data_in(tmp_path / "out")[Family.META][PUT.key] == PUT.value


def test_an_owner_that_appends_right_before_the_fence_is_refused(engine: MemoryEngine, tmp_path: Path) -> None:
    store = own(engine, tmp_path / "a")
    waits = Waits()
    real, reads = engine.read, 0

    def read(position: int) -> bytes | None:
        nonlocal reads
        found = real(position)
        if found is None and waits.now >= 100 + SILENCE_S:
            reads += 1
            if reads == 1:
                store.commit([], [PUT])
        return found

    engine.read = read  # type: ignore[method-assign]
    with closing(store), pytest.raises(JournalInUse):
        moved_out(engine, tmp_path / "out", waits)

    assert kinds(engine).count(RecordKind.FENCE) == 1


def test_a_broker_that_takes_over_before_the_end_of_the_journal_keeps_it(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()

    def fence_first(position: int, record: bytes) -> None:
        if decode_header(record).kind is RecordKind.EXPORT:
            engine.before_create = lambda position, record: None
            engine.records[position] = b"".join(encode_record(Header(RecordKind.FENCE, 9, b"b" * 16)))

    engine.before_create = fence_first
    with pytest.raises(JournalInUse, match="taken it over;"):
        moved_out(engine, tmp_path / "out")

    assert not (tmp_path / "out").exists()
    with closing(own(engine, tmp_path / "b")) as store:
        assert store.owner.epoch == 10


def test_a_damaged_record_in_the_place_of_the_end_is_named_and_is_no_other_owner(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    own(engine, tmp_path / "a").close()

    def damage_first(position: int, record: bytes) -> None:
        if decode_header(record).kind is RecordKind.EXPORT:
            engine.before_create = lambda position, record: None
            engine.records[position] = b"no record"

    engine.before_create = damage_first
    with pytest.raises(ReplicaUnusable, match="cannot be read"):
        moved_out(engine, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("before", "after"), [("FENCE", ""), ("", "FENCE"), ("EXPORT", ""), ("", "EXPORT")])
def test_an_export_that_was_killed_is_run_again(before: str, after: str, tmp_path: Path) -> None:
    engine = KillingEngine()
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        wanted = data_of(shard.store)
    engine.killed_before, engine.killed_after = before, after
    with pytest.raises(Killed):
        moved_out(engine, tmp_path / "out")
    engine.killed_before = engine.killed_after = ""
    assert not (tmp_path / "out").exists()

    made = moved_out(engine, tmp_path / "out")

    assert made.was_ended is (after == "EXPORT")
    assert data_in(tmp_path / "out") == wanted


def test_a_shard_continues_after_an_export_that_was_killed_before_its_end(tmp_path: Path) -> None:
    engine = KillingEngine()
    own(engine, tmp_path / "a").close()
    engine.killed_before = "EXPORT"
    with pytest.raises(Killed):
        moved_out(engine, tmp_path / "out")
    engine.killed_before = ""

    with closing(own(engine, tmp_path / "b")) as store:
        store.commit([], [PUT])


def test_a_repeated_export_gives_the_same_store(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    first = moved_out(engine, tmp_path / "out")

    again = moved_out(engine, tmp_path / "again")

    assert (again.epoch, again.was_ended) == (first.epoch, True)
    assert data_in(tmp_path / "again") == data_in(tmp_path / "out")


def test_a_checkpoint_that_replaces_what_is_read_is_loaded(engine: MemoryEngine, tmp_path: Path) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    wanted = data_of(shard.store)
    real = engine.read

    def read(position: int) -> bytes | None:
        engine.read = real  # type: ignore[method-assign]
        shard.check_point()
        shard.store.close()
        return real(position)

    engine.read = read  # type: ignore[method-assign]

    moved_out(engine, tmp_path / "out")

    assert data_in(tmp_path / "out") == wanted


def test_a_journal_without_a_store_is_refused(engine: MemoryEngine, tmp_path: Path) -> None:
    with pytest.raises(JournalEmpty, match="it has no records"):
        moved_out(engine, tmp_path / "out")

    assert engine.records == {}
    assert list(tmp_path.iterdir()) == []


def test_a_journal_with_an_unfinished_import_is_refused(tmp_path: Path) -> None:
    engine = KillingEngine()
    engine.killed_before = "manifest"
    with pytest.raises(Killed):
        moved_in(engine, filled(tmp_path / "old"))

    with pytest.raises(JournalEmpty, match="not complete"):
        moved_out(engine, tmp_path / "out")


def test_a_directory_with_files_is_refused_and_the_shard_is_not_fenced(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    before = dict(engine.records)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("of another")

    with pytest.raises(DirectoryUnsuitable, match="not empty"):
        moved_out(engine, tmp_path / "out")

    assert engine.records == before
    assert (tmp_path / "out" / "file").read_text() == "of another"


def test_a_mount_point_is_refused_before_anything_is_done(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(engine, tmp_path / "a").close()
    before = dict(engine.records)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: path == tmp_path / "out")

    with pytest.raises(DirectoryUnsuitable, match="mount point"):
        moved_out(engine, tmp_path / "out")

    assert engine.records == before


def test_two_exports_into_one_directory_are_not_made_at_once(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()

    with (
        working_folder(tmp_path / "out", purpose="export", suffix="exporting"),
        pytest.raises(BackupError, match="another export"),
    ):
        moved_out(engine, tmp_path / "out")


def test_an_end_that_is_not_confirmed_is_an_outage(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(engine, tmp_path / "a").close()
    monkeypatch.setattr(journal_end, "END_S", 0.05)

    def away(position: int, record: bytes) -> None:
        engine.away = decode_header(record).kind is RecordKind.EXPORT

    engine.before_create = away
    with pytest.raises(EngineAway, match="did not confirm the end"):
        moved_out(engine, tmp_path / "out")

    engine.away, engine.before_create = False, lambda position, record: None
    moved_out(engine, tmp_path / "out")
    assert (tmp_path / "out").exists()


def test_a_record_that_cannot_be_read_ends_the_export(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    engine.records[1] = b"no record"

    with pytest.raises(ReplicaUnusable, match="cannot be read"):
        moved_out(engine, tmp_path / "out")


def test_a_follower_that_fences_ahead_of_the_end_stops(engine: MemoryEngine, tmp_path: Path) -> None:
    """Fences beyond the end count for no reader, whichever of both was first in time."""
    own(engine, tmp_path / "a").close()
    made = moved_out(engine, tmp_path / "out")
    fence = b"".join(encode_record(Header(RecordKind.FENCE, made.epoch + 1, b"c" * 16)))
    engine.records[max(engine.records) + 1] = fence

    with pytest.raises(ReplicaUnusable, match="has left"):
        own_new(engine, tmp_path / "new")
    assert moved_out(engine, tmp_path / "again").epoch == made.epoch
