"""Process that opens a store whose format has two later ones: to be killed in the middle of a migration.

    python -m tests.support.storage.migrating DIRECTORY

It writes a line per changed value, and waits for a line on its standard input before it continues.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from forebay.broker.storage.formats import FORMAT, Formats, Step
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import Delete, Family, Put, Store
from forebay.broker.storage.store.rocks.store import RocksStore

OLD: Final = b"\xf0old/"
NEW: Final = b"\xf0new/"
VALUES: Final = 5


def renamed(store: Store, changed: Callable[[], None]) -> int:
    """First step: the values have other keys."""
    found = list(scan_all(store, Family.META, OLD, OLD + b"\xff"))
    for key, value in found:
        store.write([Delete(Family.META, key), Put(Family.META, NEW + key.removeprefix(OLD), value)])
        changed()
    return len(found)


def marked(store: Store, changed: Callable[[], None]) -> int:
    """Second step: each value ends with a mark."""
    found = [one for one in scan_all(store, Family.META, NEW, NEW + b"\xff") if not one[1].endswith(b"!")]
    for key, value in found:
        store.write([Put(Family.META, key, value + b"!")])
        changed()
    return len(found)


def later_formats(changed: Callable[[], None] = lambda: None) -> Formats:
    """Return formats with two steps after the current one; ``changed`` is called after each changed value."""
    steps = (
        Step(FORMAT + 1, "keys begin with new", partial(renamed, changed=changed)),
        Step(FORMAT + 2, "values end with a mark", partial(marked, changed=changed)),
    )
    return Formats(FORMAT + 2, steps)


def fill(directory: Path) -> None:
    """Make a store of the current format."""
    store = RocksStore(directory)
    store.write([Put(Family.META, OLD + b"%d" % number, b"value %d" % number) for number in range(VALUES)])
    store.sync()
    store.close()


def contents(store: Store) -> dict[bytes, bytes]:
    """Return the values of all formats."""
    return dict(scan_all(store, Family.META, b"\xf0", b"\xf1"))


def main(directory: Path) -> None:
    """Open the store, step by step."""

    def changed() -> None:
        print("changed", flush=True)
        sys.stdin.readline()

    RocksStore(directory, formats=later_formats(changed)).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
