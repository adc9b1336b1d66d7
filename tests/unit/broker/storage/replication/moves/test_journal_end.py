"""End of a journal: the place of its last record, its owners, and a store without bulk files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.moves.errors import JournalEmpty, JournalInUse
from forebay.broker.storage.replication.moves.journal_end import JournalEnd
from forebay.broker.storage.replication.record import RecordKind, decode_header
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.checkpointed import Checkpointed, own
from tests.support.storage.disk_directory import SMALL_STORE
from tests.support.storage.moved import SILENCE_S, Waits, data_of

PUT = Put(Family.META, b"later", b"1")


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def end_of(engine: MemoryEngine, store: RocksStore, *, pages: bool = True) -> JournalEnd:
    waits = Waits()
    return JournalEnd(engine, store, silence_s=SILENCE_S, clock=waits.clock, wait=waits.wait, pages=pages)


def test_the_place_of_the_last_record_is_in_front_of_it_for_every_reader(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    with closing(RocksStore(tmp_path / "one", settings=SMALL_STORE)) as store:
        end = end_of(engine, store)
        end.read()

        owner = end.take_over("here")
        assert owner is not None
        with closing(owner):
            end.append(owner, "there")
        end.read()

        assert end.place.exported
        assert end.ended_at is not None
        assert decode_header(engine.records[end.ended_at.position]).kind is RecordKind.EXPORT
        assert end.ended_at.position == max(engine.records)
    with closing(RocksStore(tmp_path / "two", settings=SMALL_STORE)) as store:
        later = end_of(engine, store)
        later.read()
        assert later.ended_at == end.ended_at
        assert later.take_over("elsewhere") is None


def test_an_owner_that_takes_over_right_before_the_last_record_is_in_use(engine: MemoryEngine, tmp_path: Path) -> None:
    own(engine, tmp_path / "a").close()
    with closing(RocksStore(tmp_path / "one", settings=SMALL_STORE)) as store:
        end = end_of(engine, store)
        end.read()
        owner = end.take_over("here")
        assert owner is not None
        with closing(owner), closing(own(engine, tmp_path / "b")) as other:
            other.commit([], [PUT])

            with pytest.raises(JournalInUse, match="has taken it over;"):
                end.append(owner, "")
            other.commit([], [PUT])


def test_a_store_without_pages_has_everything_else(engine: MemoryEngine, tmp_path: Path) -> None:
    shard = Checkpointed(engine, tmp_path / "a")
    with closing(shard.store):
        wanted = data_of(shard.store)
    with closing(RocksStore(tmp_path / "one", settings=SMALL_STORE)) as store:
        end_of(engine, store, pages=False).read()

        found = data_of(store)
    assert wanted[Family.BULK]
    assert found == {**wanted, Family.BULK: {}}


def test_an_empty_journal_has_no_end(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path / "one", settings=SMALL_STORE)) as store, pytest.raises(JournalEmpty):
        end_of(engine, store).read()
