"""The table of stored kinds is complete, and what goes through all stored values forgets none of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from forebay.broker.core import writes
from forebay.broker.core.writes import PartitionWrite, Write
from forebay.broker.storage import records
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION, JournalPosition
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.registry import BY_PREFIX, KINDS, OPERATIONS, damaged_values
from forebay.broker.storage.records.sinks.writer import WRITER
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.repair.command import verify
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.writes import PUTS

NOISE: Final = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"


def filled(store: MemoryStore | RocksStore) -> Journal:
    """A store with a value of every kind."""
    journal = recover(store).journal
    journal.commit([], PUTS)
    position = JournalPosition("a" * 32, 7, 1, "b" * 32, 3)
    store.write([HIGHEST.put(HIGHEST.key(), (1, 1)), JOURNAL_POSITION.put(JOURNAL_POSITION.key(), position)])
    return journal


def of_every_kind() -> dict[str, bytes]:
    """A key of each kind that is in a filled store."""
    store = MemoryStore()
    filled(store)
    found = store.scan(Family.META, b"", b"\xff" * 64, 1_000)
    return {BY_PREFIX[key[:1]].name: key for key, _ in found}


def kinds_of_all_files() -> list[Kind[Any]]:
    """Every kind that is defined in a file below the folder of the records."""
    folder = Path(records.__path__[0])
    paths = [file.relative_to(folder).with_suffix("") for file in folder.rglob("*.py") if file.stem != "__init__"]
    modules = [".".join((records.__name__, *path.parts)) for path in paths if path.stem != "registry"]
    found = [value for name in modules for value in vars(import_module(name)).values() if isinstance(value, Kind)]
    return list({id(kind): kind for kind in found}.values())


def test_every_kind_is_in_the_registry_once() -> None:
    assert {id(kind) for kind in KINDS} == {id(kind) for kind in kinds_of_all_files()}
    assert len({kind.name for kind in KINDS}) == len(KINDS) == 36


def test_no_two_kinds_share_their_first_byte() -> None:
    kinds = [kind for kind in KINDS if kind.family is Family.META]

    assert len(BY_PREFIX) == len(kinds) == 32
    assert {len(kind.prefix) for kind in kinds} == {1}
    assert {kind.prefix for kind in KINDS if kind.family is not Family.META} == {b""}


def test_every_write_of_the_core_has_one_kind_that_is_responsible_for_it() -> None:
    known = {each for each in vars(writes).values() if isinstance(each, type) and issubclass(each, Write)}
    responsible = [write for kind in KINDS for write, _ in kind.operations()]

    assert set(OPERATIONS) == known - {Write, PartitionWrite}
    assert len(responsible) == len(set(responsible)) == len(OPERATIONS) - 1  # a sink is deleted by the registry


def test_everything_that_sets_a_value_is_tried_here() -> None:
    assert {type(sample) for sample in PUTS} == {kind for kind in OPERATIONS if kind.__name__.startswith("Put")}


def test_every_kind_says_how_long_it_lives_and_what_a_start_does_when_it_is_damaged() -> None:
    assert [kind.name for kind in KINDS if not (kind.lives and kind.damaged)] == []


def test_a_store_with_a_value_of_every_kind_is_whole() -> None:
    store = MemoryStore()
    filled(store)

    assert list(damaged_values(store)) == []
    assert set(of_every_kind()) == {kind.name for kind in BY_PREFIX.values()}


@pytest.mark.parametrize("kind", of_every_kind())
def test_a_damaged_value_of_any_kind_is_found(kind: str) -> None:
    store = MemoryStore()
    filled(store)
    store.write([Put(Family.META, of_every_kind()[kind], NOISE)])

    [problem] = damaged_values(store)

    assert problem.startswith(f"{kind} at key ")


def test_a_value_of_no_known_kind_and_a_part_that_cannot_be_read_are_found() -> None:
    store = MemoryStore()
    filled(store)
    store.write([Put(Family.META, b"\x7fwhat", b"x")])
    store.damage(Family.META, WRITER.key(1, "w"))

    [problem] = damaged_values(store)
    assert "could not be read" in problem
    store.write([Put(Family.META, WRITER.key(1, "w"), b"")])
    assert any("unknown kind" in problem for problem in damaged_values(store))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slot", "reserve", "epoch", "quarantined page", "totals"])
def test_verify_calls_no_directory_clean_that_has_a_damaged_value(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    store = RocksStore(directory)
    filled(store)
    store.write([Put(Family.META, of_every_kind()[kind], NOISE)])
    store.sync()
    store.close()

    report = verify(directory)

    assert not report.clean
    assert any(problem.startswith(f"{kind} at key") for problem in report.damage)
