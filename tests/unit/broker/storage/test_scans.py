"""Long ranges are read slice by slice, whole and once."""

from __future__ import annotations

import pytest

from forebay.broker.storage.scans import SLICE, bulk_keys_all, scan_all
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore

COUNTS = (0, 1, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, 2 * SLICE + 5)


def keys(count: int) -> list[bytes]:
    return [number.to_bytes(4, "big") for number in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_every_value_of_a_range_is_found_once_and_in_order(count: int) -> None:
    store = MemoryStore()
    store.write([Put(Family.META, key, b"v") for key in keys(count)])

    assert list(scan_all(store, Family.META, b"", b"\xff" * 5)) == [(key, b"v") for key in keys(count)]
    assert [key for key, _ in scan_all(store, Family.META, b"", keys(count)[-1] if count else b"")] == keys(count)[:-1]


@pytest.mark.parametrize("count", COUNTS)
def test_every_key_of_bulk_is_found_once_and_in_order(count: int) -> None:
    store = MemoryStore()
    store.ingest([(key, b"v") for key in keys(count)])

    assert list(bulk_keys_all(store, b"", b"\xff" * 5)) == keys(count)


def test_a_range_that_runs_backwards_has_no_keys_of_bulk() -> None:
    assert list(bulk_keys_all(MemoryStore(), b"b", b"a")) == []
