"""Target of backups: named bytes in a directory or an object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

CHUNK_BYTES: Final = 4 << 20
"""Bytes read and written at once."""


class Target(Protocol):
    """Named bytes.

    Calls block, from one thread at a time but for ``get``, and raise ``TargetFailed``.
    """

    @property
    def reads_at_once(self) -> int:
        """Number of names from which it is fastest read at the same time, by as many threads."""
        ...

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yield the names that begin with ``prefix``, in any order."""
        ...

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """Write bytes under a new name: all of them, or none. A chunk is used before the next one is taken."""
        ...

    def get(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a name in chunks. Raises ``FileNotFoundError``."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete names; those that do not exist are left out."""
        ...

    def sync(self) -> None:
        """Make everything that was put durable."""
        ...


def read_all(target: Target, name: str) -> bytes:
    """Return the bytes of a small name. Raises ``FileNotFoundError``."""
    return b"".join(target.get(name))
