"""Import of a directory: what the journal then has, what is refused, and what a kill leaves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreFormatUnsupported, StoreLocked
from forebay.broker.storage.records.store import STORE_ID
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.moves.errors import DirectoryUnsuitable, ImportFailed, JournalOccupied
from forebay.broker.storage.replication.record import RecordKind, decode_header
from forebay.broker.storage.replication.replica import ReplicaUnusable
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.checkpointed import Checkpointed, own
from tests.support.storage.disk_directory import SMALL_STORE
from tests.support.storage.moved import Killed, KillingEngine, data_in, data_of, filled, moved_in, own_new


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return filled(tmp_path / "old")


@pytest.fixture
def engine() -> Engine:
    return MemoryEngine()


def files_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_broker_with_an_empty_directory_has_the_imported_store(directory: Path, tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")

    made = moved_in(engine, directory)

    with closing(own_new(engine, tmp_path / "new")) as store:
        assert data_of(store) == data_in(directory)
        assert data_of(store)[Family.BULK]
    assert (made.sinks, made.was_complete) == (3, False)
    assert made.bytes > 0


def test_the_first_owner_is_above_every_start_on_the_directory(engine: Engine, directory: Path, tmp_path: Path) -> None:
    last = 0
    for _ in range(3):
        with closing(RocksStore(directory, settings=SMALL_STORE)) as store:
            last = recover(store).start_count

    moved_in(engine, directory)

    with closing(own_new(engine, tmp_path / "new")) as owned:
        assert owned.owner.epoch > last
        assert recover(owned).start_count == owned.owner.epoch


def test_the_imported_store_is_owned_at_once_since_it_has_no_owner(
    engine: Engine, directory: Path, tmp_path: Path
) -> None:
    moved_in(engine, directory)

    with closing(own_new(engine, tmp_path / "new")) as store:
        assert store.owner.position == 2  # after the claim and the fence


def test_an_import_changes_nothing_in_the_directory(engine: Engine, directory: Path) -> None:
    before = files_in(directory)

    moved_in(engine, directory)

    assert files_in(directory) == before


def test_a_second_import_of_the_same_directory_does_nothing_even_after_the_shard_has_served(
    engine: Engine, directory: Path, tmp_path: Path
) -> None:
    moved_in(engine, directory)
    with closing(own_new(engine, tmp_path / "new")) as store:
        store.commit([], [Put(Family.META, b"later", b"1")])
    before = list(engine.sizes(0, 100))

    assert moved_in(engine, directory).was_complete
    assert list(engine.sizes(0, 100)) == before


def test_a_directory_that_was_served_since_its_import_is_refused(engine: Engine, directory: Path) -> None:
    moved_in(engine, directory)
    with closing(RocksStore(directory, settings=SMALL_STORE)) as store:
        recover(store)

    with pytest.raises(JournalOccupied, match="it has a checkpoint"):
        moved_in(engine, directory)


def test_a_journal_with_records_is_refused_and_keeps_them(engine: Engine, directory: Path, tmp_path: Path) -> None:
    with closing(own(engine, tmp_path / "shard")) as store:
        store.commit([], [Put(Family.META, b"key", b"1")])
    before = {position: engine.read(position) for position, _ in engine.sizes(0, 100)}

    with pytest.raises(JournalOccupied, match="it has records"):
        moved_in(engine, directory)

    assert {position: engine.read(position) for position, _ in engine.sizes(0, 100)} == before
    assert Marks(engine).refresh() is None


def test_a_journal_that_lost_its_first_record_is_not_empty(directory: Path) -> None:
    engine = MemoryEngine()
    engine.records[7] = b"of another"

    with pytest.raises(JournalOccupied):
        moved_in(engine, directory)

    assert set(engine.records) == {7}


def test_a_journal_with_a_checkpoint_of_its_own_is_refused(engine: Engine, directory: Path, tmp_path: Path) -> None:
    shard = Checkpointed(engine, tmp_path / "shard")
    with closing(shard.store):
        shard.check_point()

    with pytest.raises(JournalOccupied, match="it has"):
        moved_in(engine, directory)

    assert shard.newest().number == 0


def test_a_directory_in_use_is_refused(engine: Engine, directory: Path) -> None:
    with closing(RocksStore(directory, settings=SMALL_STORE)), pytest.raises(StoreLocked):
        moved_in(engine, directory)

    assert list(engine.sizes(0, 100)) == []


def test_a_directory_that_follows_a_journal_is_refused(engine: Engine, tmp_path: Path) -> None:
    with closing(own(DirectoryEngine(tmp_path / "other"), tmp_path / "shard")) as store:
        store.commit([], [Put(Family.META, b"key", b"1")])

    with pytest.raises(DirectoryUnsuitable, match="already follows a journal"):
        moved_in(engine, tmp_path / "shard")

    assert list(engine.sizes(0, 100)) == []


def test_a_directory_of_a_later_format_is_refused_by_its_name(engine: Engine, directory: Path) -> None:
    (directory / "FORMAT").write_text("99\n")

    with pytest.raises(StoreFormatUnsupported, match=f"store {directory} has format 99"):
        moved_in(engine, directory)

    assert list(engine.sizes(0, 100)) == []


def test_a_damaged_page_ends_the_import_without_a_checkpoint(engine: Engine, directory: Path) -> None:
    page = sorted((directory / "bulk").iterdir())[-1]
    content = bytearray(page.read_bytes())
    content[1_000] ^= 1
    page.write_bytes(content)

    with pytest.raises(ImportFailed, match=r"the store is damaged: page .*forebay repair"):
        moved_in(engine, directory)

    assert Marks(engine).refresh() is None


def test_damaged_state_ends_the_import_before_it_claims_the_journal(engine: Engine, directory: Path) -> None:
    with closing(RocksStore(directory, settings=SMALL_STORE)) as store:
        store.commit([], [Put(Family.META, STORE_ID.key(), b"damaged")])

    with pytest.raises(ImportFailed, match=r"store id.* serve the directory without a journal"):
        moved_in(engine, directory)

    assert list(engine.sizes(0, 100)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("IMPORT", ""),
        ("", "IMPORT"),
        ("started", ""),
        ("CURRENT", ""),
        ("manifest", ""),
        ("marks", ""),
        ("", "marks"),
        ("voided", ""),
    ],
)
def test_an_import_that_was_killed_is_completed_by_the_next_and_until_then_no_broker_serves_a_part(
    before: str, after: str, directory: Path, tmp_path: Path
) -> None:
    engine = KillingEngine()
    engine.killed_before, engine.killed_after = before, after
    with pytest.raises(Killed):
        moved_in(engine, directory)
    engine.killed_before = engine.killed_after = ""
    is_claimed, is_complete = 0 in engine.records, Marks(engine).refresh() is not None
    if is_claimed and not is_complete:
        with pytest.raises(ReplicaUnusable, match="an import into memory:// is not complete"):
            own_new(engine, tmp_path / "early")

    made = moved_in(engine, directory)

    assert made.was_complete is is_complete
    with closing(own_new(engine, tmp_path / "new")) as store:
        assert data_of(store) == data_in(directory)


def test_an_unfinished_import_keeps_the_journal_for_its_store(directory: Path, tmp_path: Path) -> None:
    engine = KillingEngine()
    engine.killed_before = "manifest"
    with pytest.raises(Killed):
        moved_in(engine, directory)

    with pytest.raises(JournalOccupied, match="an import of another store has begun"):
        moved_in(engine, filled(tmp_path / "another"))


def test_a_journal_that_does_not_answer_ends_the_import(directory: Path) -> None:
    engine = MemoryEngine()
    engine.before_create = lambda position, record: setattr(engine, "away", True)

    with pytest.raises(EngineAway):
        moved_in(engine, directory)


def test_a_journal_that_does_not_answer_during_the_transfer_is_no_damage(directory: Path) -> None:
    engine = KillingEngine()

    def fail(name: str, content: bytes) -> bool:
        raise EngineAway("it is switched off")

    engine.create_named = fail  # type: ignore[method-assign]

    with pytest.raises(EngineAway, match="switched off"):
        moved_in(engine, directory)


def test_later_checkpoints_keep_the_claim(engine: Engine, directory: Path, tmp_path: Path) -> None:
    moved_in(engine, directory)
    own_new(engine, tmp_path / "new").close()
    shard = Checkpointed(engine, tmp_path / "new", filled=False)
    with closing(shard.store):
        shard.store.commit([], [Put(Family.META, b"later", b"1")])
        shard.check_point()

    first = engine.read(0)
    assert first is not None
    assert decode_header(first).kind is RecordKind.IMPORT
    assert shard.newest().number == 1
    with closing(own_new(engine, tmp_path / "another")) as store:
        assert store.get_many(Family.META, [b"later"]) == [b"1"]
