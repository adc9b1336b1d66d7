"""Store in the memory of the process, for tests: ``memory:`` and ``memory:NAME``.

All stores of one name share their documents, as consumers of one program do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from forebay.client.errors import PositionConflict
from forebay.client.positions.store import StoreContext, Versioned

_SHARED: dict[str, MemoryPositions] = {}


class MemoryPositions:
    """Documents in a dictionary; safe for use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Protects the two below."""
        self._documents: dict[str, Versioned] = {}
        self._written = 0

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        with self._lock:
            return self._documents.get(key)

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        with self._lock:
            found = self._documents.get(key)
            if (found.version if found is not None else None) != expected:
                raise PositionConflict(f"the position {key} was written concurrently", facts={"key": key})
            self._written += 1
            self._documents[key] = Versioned(document, str(self._written))
            return str(self._written)

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        with self._lock:
            self._documents.pop(key, None)

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        with self._lock:
            return iter(sorted(key for key in self._documents if key.startswith(prefix)))

    def close(self) -> None:
        """See ``PositionStore``; the documents stay."""


def open_store(context: StoreContext) -> MemoryPositions:
    """Return the store of a name."""
    return _SHARED.setdefault(context.url.path, MemoryPositions())
