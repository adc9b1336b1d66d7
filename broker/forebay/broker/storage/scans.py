"""Scans of long ranges of keys in slices, because one scan blocks other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from forebay.broker.storage.store.contract import Family, Store

SLICE: Final = 1_000
"""Keys per scan."""
T = TypeVar("T")


def scan_all(store: Store, family: Family, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield all keys and values of a range, in order. Raises what ``Store.scan`` does."""
    return sliced(lambda start: store.scan(family, start, end, SLICE), first, key_of=lambda found: found[0])


def bulk_keys_all(store: Store, first: bytes, end: bytes, *, here: bool = False) -> Iterator[bytes]:
    """Yield all keys of bulk in a range, in order. Raises what ``Store.bulk_keys`` does."""

    def scan(start: bytes) -> list[bytes]:
        return store.bulk_keys(start, end, SLICE, here=here) if start < end else []

    return sliced(scan, first, key_of=lambda key: key)


def sliced(scan: Callable[[bytes], list[T]], first: bytes, *, key_of: Callable[[T], bytes]) -> Iterator[T]:
    """Yield the results of ``scan`` from a key on, in slices of at most ``SLICE``."""
    while True:
        found = scan(first)
        yield from found
        if len(found) < SLICE:
            return
        first = key_of(found[-1]) + b"\0"
