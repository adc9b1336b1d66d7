"""A store backend is chosen by its name, and every name of the table opens a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.serve import open_store
from forebay.broker.settings import SettingsError, load
from forebay.broker.storage.store.backends import BACKENDS
from forebay.broker.storage.store.contract import Family, Put


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_opens_a_store_that_keeps_what_was_synced(name: str, tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path / "data", store=name)
    store = open_store(settings)
    store.write([Put(Family.META, b"\x7fkey", b"value")])
    store.sync()
    store.close()
    again = open_store(settings)

    assert again.get_many(Family.META, [b"\x7fkey"]) == [b"value"]
    again.close()


def test_a_backend_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsError, match="store = 'paper': must be one of rocksdb"):
        load(store="paper")
