"""Position store whose reads and writes fail on request, before or after they take effect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.store import PositionStore, Versioned

Failure = Literal["before", "after"]
"""Point of a failure: nothing was written, or the write took effect and its answer was lost."""


class FlakyPositions:
    """Store that fails as often as ``failures`` says, the first element first."""

    def __init__(self, store: PositionStore, failures: list[Failure | None] | None = None) -> None:
        self.store = store
        self.failures: deque[Failure | None] = deque(failures or [])
        self.written: list[bytes] = []
        """Documents that took effect, in order."""

    def read(self, key: str) -> Versioned | None:
        return self.store.read(key)

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        failure = self.failures.popleft() if self.failures else None
        if failure == "before":
            raise PositionStoreUnavailable("the store is away")
        version = self.store.compare_and_write(key, document, expected)
        self.written.append(document)
        if failure == "after":
            raise PositionStoreUnavailable("the answer was lost")
        return version

    def delete(self, key: str) -> None:
        self.store.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        return self.store.list(prefix)

    def close(self) -> None:
        self.store.close()
