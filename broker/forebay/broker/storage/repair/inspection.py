"""Read-only inspection of a directory, through a copy of its database.

Tables never change, so the copy has hard links to them where the file system allows it; the rest is small and copied.
Bulk files are read in place. A database that RocksDB cannot open is repaired in the copy, from its tables and the
log. RocksDB's repair needs a table of each family to know its name: the seeds.
"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rocksdict import Cache, Rdict

from forebay.broker.storage.directory import lock_directory, read_owner
from forebay.broker.storage.errors import StoreCorrupt, StoreFailed, StoreLocked
from forebay.broker.storage.failures import classified
from forebay.broker.storage.formats import FORMATS, format_in
from forebay.broker.storage.repair.salvage import copy_readable
from forebay.broker.storage.store.contract import Delete, Family
from forebay.broker.storage.store.rocks.families import generations, make_families
from forebay.broker.storage.store.rocks.options import database_options, family_options
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings

_SETTINGS: Final = RocksSettings(unreadable_is_damage=True)
_SEED: Final = b"\x00seed"
_SEED_NUMBER: Final = 90_000_000
"""File number of the first seed; tables of a real database have lower numbers."""


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, so that no broker starts on it. Raises ``StoreLocked`` if one runs."""
    handles = lock_directory(directory)
    path = directory / "owner.json"
    try:
        if path.exists():
            handles.append(os.open(path, os.O_RDONLY))
            try:
                fcntl.flock(handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreLocked(directory, read_owner(handles[-1])) from None
        yield
    finally:
        for handle in handles:
            os.close(handle)


def snapshot(directory: Path, into: Path) -> None:
    """Create a copy of ``directory`` in ``into`` that can be opened in its place."""
    (into / "db").mkdir(parents=True)
    (into / "FORMAT").write_text(f"{_format_of(directory)}\n", encoding="ascii")
    for path in sorted((directory / "db").iterdir(), key=lambda each: each.suffix == ".log"):
        if path.name.startswith(("LOG", "LOCK", "IDENTITY")) or not path.is_file():
            continue
        with suppress(FileNotFoundError):  # a running broker removes files
            if path.suffix == ".sst":
                _link(path, into / "db" / path.name)
            else:
                copy_readable(path, into / "db" / path.name)
    if (directory / "synced").exists():
        copy_readable(directory / "synced", into / "synced")
    if (directory / "bulk").is_dir():
        (into / "bulk").symlink_to((directory / "bulk").resolve())


def _format_of(directory: Path) -> int:
    """Return the format of a directory if it is one that the copy is migrated from, else the current one."""
    try:
        found = format_in((directory / "FORMAT").read_text(encoding="ascii", errors="replace"))
    except OSError:
        return FORMATS.current
    return found if found is not None and FORMATS.oldest <= found <= FORMATS.current else FORMATS.current


def _link(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy)
    except OSError:
        copy_readable(path, copy)


def opened(copy: Path, *, repair: bool) -> tuple[RocksStore, bool]:
    """Return the store of a snapshot, and True if its database had to be repaired.

    Raises ``StoreCorrupt`` if a repair was needed and not requested, or did not help.
    """
    try:
        return RocksStore(copy, settings=_SETTINGS), False
    except (StoreCorrupt, StoreFailed):
        if not repair:
            raise
    gc.collect()
    repair_database(copy / "db")
    store = RocksStore(copy, settings=_SETTINGS)
    store.write([Delete(family, _SEED) for family in Family if family is not Family.BULK])
    return store, True


def repair_database(database: Path) -> None:
    """Rebuild a database from its tables and logs."""
    settings = RocksSettings()
    options = database_options(settings)
    with classified("open", directory=database.parent):
        for path in _seeds(database.parent / "seed"):
            shutil.move(path, database / path.name)
        for path in database.glob("CURRENT*"):
            path.unlink()
        Rdict.repair(str(database), options)
        _keep_newest_generations(database)


def _seeds(folder: Path) -> list[Path]:
    """Create a seed table of each family, numbered as in a new database."""
    options, cache = database_options(RocksSettings()), Cache(1 << 20)
    folder.mkdir()
    make_families(folder, options, cache)
    made = Rdict(str(folder), options, {str(family): family_options(family, cache) for family in Family})
    for family in Family:
        _seed(made.get_column_family(str(family)))
    made.close()
    del made
    gc.collect()
    return [path.rename(folder / f"{_SEED_NUMBER + n}.sst") for n, path in enumerate(sorted(folder.glob("*.sst")))]


def _seed(table: Rdict) -> None:
    table[_SEED] = _SEED
    table.flush(True)
    table.close()


def _keep_newest_generations(database: Path) -> None:
    """Remove the seeds of families that also have a rewritten generation."""
    options, cache = database_options(RocksSettings()), Cache(1 << 20)
    names = [name for name in Rdict.list_cf(str(database), options) if name.partition(".")[0] in set(Family)]
    chosen, others = generations(names)
    newest = {Family(name.partition(".")[0]): name for name in [*chosen.values(), *others]}
    older = [name for name in names if newest[Family(name.partition(".")[0])] != name]
    if older:
        families = {name: family_options(Family(name.partition(".")[0]), cache) for name in names}
        opened_ = Rdict(str(database), options, families)
        for name in older:
            opened_.drop_column_family(name)
        opened_.close()
        del opened_
        gc.collect()
