"""Families of a database: their creation, their names, and the rewrite of a damaged one.

A rewritten family has a new name: its own, a dot and the number of its generation. The old one is removed
when the new one is complete and durable, so of two generations after a crash the lower one is valid. RocksDB numbers
families as they are created, and its log has only these numbers: the first generation is always created in the same
order, so that a log can be read even if the list of families is lost.

An iteration ends at damage, and one that begins after it continues. A binary search finds that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from rocksdict import Cache, Options, Rdict, RdictIter, WriteBatch

from forebay.broker.storage.errors import StoreCorrupt, StoreError, StoreUnreadable
from forebay.broker.storage.failures import classified, is_lost_sector
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.rocks.options import family_options

Span = tuple[bytes, bytes]
Broken = tuple[type[StoreError], ...]
"""Errors that exclude a part of a family."""
END: Final = b"\xff" * 64
"""Above every key."""
_WIDTH: Final = 48
"""Bytes of the numbers that represent keys in the binary search after damage."""
_BATCH: Final = 1_000


def make_families(database: Path, options: Options, cache: Cache) -> None:
    """Create a database with its families."""
    made = Rdict(str(database), options, {})
    for family in Family:
        made.create_column_family(str(family), family_options(family, cache)).close()
    made.close()


def generations(names: Iterable[str]) -> tuple[dict[Family, str], list[str]]:
    """Return the name of each family, and the names of rewrites that a crash interrupted."""
    found: dict[Family, list[tuple[int, str]]] = {family: [] for family in Family}
    for name in names:
        base, _, number = name.partition(".")
        if base in set(Family):
            found[Family(base)].append((int(number or 1), name))
    chosen = {family: min(each, default=(1, str(family)))[1] for family, each in found.items()}
    return chosen, [name for each in found.values() for _, name in sorted(each)[1:]]


def next_generation(name: str) -> str:
    """Return the name of the next generation."""
    base, _, number = name.partition(".")
    return f"{base}.{int(number or 1) + 1}"


def readable(
    table: Rdict, family: Family, lost: list[Span], broken: Broken = (StoreCorrupt,)
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the readable part of a family; ``lost`` gets the ranges unreadable for a ``broken`` reason.

    Raises ``StoreUnreadable`` if that is not among them.
    """
    first: bytes | None = b""
    while first is not None:
        iterator = table.iter()
        iterator.seek(first)
        while iterator.valid():
            key = iterator.key()
            yield key, iterator.value()
            first = key + b"\0"
            iterator.next()
        if _whole(iterator, family, broken):
            return
        after = _after(table, family, first, broken)
        lost.append((first, after if after is not None else END))
        first = after


def _after(table: Rdict, family: Family, first: bytes, broken: Broken) -> bytes | None:
    """Return the lowest key from which an iteration continues; None if nothing readable is left."""
    low, high = _number(first), _number(END)
    step = 1
    while low + step < high and not _reads(table, family, low + step, broken):
        step *= 2
    if low + step >= high:
        return None
    low, high = low + step // 2, low + step
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(table, family, middle, broken):
            high = middle
        else:
            low = middle
    iterator = table.iter()
    iterator.seek(_key(high))
    return iterator.key() if iterator.valid() else None


def _reads(table: Rdict, family: Family, number: int, broken: Broken) -> bool:
    """Return whether a new iteration from there begins without damage; the old one may report it again."""
    iterator = table.iter()
    iterator.seek(_key(number))
    return bool(iterator.valid()) or _whole(iterator, family, broken)


def _whole(iterator: RdictIter, family: Family, broken: Broken) -> bool:
    """Check that an iteration has reached its end, not damage."""
    try:
        with classified("read", family):
            iterator.status()
    except broken as error:
        if isinstance(error, StoreUnreadable) and not is_lost_sector(error.__cause__):
            raise
        return False
    return True


def _number(key: bytes) -> int:
    return int.from_bytes(key[:_WIDTH].ljust(_WIDTH, b"\0"), "big")


def _key(number: int) -> bytes:
    return number.to_bytes(_WIDTH, "big").rstrip(b"\0") or b"\0"


def copied(
    database: Rdict,
    old: Rdict,
    name: str,
    family: Family,
    cache: Cache,
    wanted: Iterable[bytes],
    read: Callable[[bytes], bytes | None],
    broken: Broken = (StoreCorrupt,),
) -> tuple[Rdict, list[Span]]:
    """Rewrite a family under ``name``; keys of ``wanted`` that an iteration misses are ``read`` singly.

    Returns it and the lost ranges of keys.
    """
    new = database.create_column_family(name, family_options(family, cache))
    handle = database.get_column_family_handle(name)
    lost: list[Span] = []
    batch = WriteBatch(raw_mode=True)
    for key, value in readable(old, family, lost, broken):
        batch.put(key, value, handle)
        if batch.len() >= _BATCH:
            database.write(batch)
            batch = WriteBatch(raw_mode=True)
    for key in wanted:
        found = read(key) if any(first <= key < end for first, end in lost) else None
        if found is not None:
            batch.put(key, found, handle)
    database.write(batch)
    database.flush_wal(True)
    return new, lost
