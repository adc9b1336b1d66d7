"""The table of stored kinds is complete, and what goes through all stored values forgets none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

import pytest

from forebay.broker.core.writes import (
    Write,
)
from forebay.broker.storage import state
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records import keys
from forebay.broker.storage.records.codec import encode_highest
from forebay.broker.storage.records.kinds import BY_PREFIX, KINDS, damaged_values
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.repair.command import verify
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks import RocksStore
from tests.support.storage.writes import PUTS

NOISE: Final = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"


def filled(store: MemoryStore | RocksStore) -> Journal:
    """A store with a value of every kind."""
    journal = recover(store).journal
    journal.commit([], PUTS)
    store.write([Put(Family.META, keys.HIGHEST, journal_highest())])
    return journal


def journal_highest() -> bytes:

    return encode_highest(1, 1)


def of_every_kind() -> dict[str, bytes]:
    """A key of each kind that is in a filled store."""
    store = MemoryStore()
    filled(store)
    found = store.scan(Family.META, b"", b"\xff" * 64, 1_000)
    return {BY_PREFIX[key[:1]].name: key for key, _ in found}


def test_every_prefix_of_the_keys_is_in_the_table_once() -> None:
    named = {
        value
        for name, value in vars(keys).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, bytes) and len(value) == 1
    }

    assert {kind.prefix for kind in KINDS} == named
    assert len({kind.name for kind in KINDS}) == len(KINDS) == len(BY_PREFIX)


def test_everything_that_sets_a_value_is_tried_here() -> None:
    assert {type(sample) for sample in PUTS} == {kind for kind in get_args(Write) if kind.__name__.startswith("Put")}


def test_a_start_reads_every_kind_but_those_that_are_read_when_somebody_asks() -> None:
    assert set(state.KINDS) == {kind.prefix for kind in KINDS} - {keys.SLOT, keys.EPOCH, keys.EPOCH_STAGES}


def test_a_store_with_a_value_of_every_kind_is_whole() -> None:
    store = MemoryStore()
    filled(store)

    assert list(damaged_values(store)) == []
    assert set(of_every_kind()) == {kind.name for kind in KINDS}


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
    store.damage(Family.META, keys.writer(1, "w"))

    [problem] = damaged_values(store)
    assert "could not be read" in problem
    store.write([Put(Family.META, keys.writer(1, "w"), b"")])
    assert any("no known kind" in problem for problem in damaged_values(store))


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
