"""Table of the store backends, by the value of the setting `store`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from forebay.broker.storage.store.contract import Store


def _rocksdb(directory: Path) -> Store:
    # Imported only if it is selected: a broker in memory runs without RocksDB.
    from forebay.broker.storage.store.rocks.store import RocksStore  # noqa: PLC0415

    return RocksStore(directory)


BACKENDS: Final[Mapping[str, Callable[[Path], Store]]] = {"rocksdb": _rocksdb}
"""Functions that open the store in a directory. They raise ``StoreError``."""
