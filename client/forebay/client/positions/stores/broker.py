"""Store in the broker of the sink: ``broker:``, the default.

A position is as durable as the broker's disk, and needs no other system. It outlives the sink, not the broker's data
directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from forebay.client.admin.positions import Positions
from forebay.client.errors import (
    AccessDenied,
    BrokerUnavailable,
    DeadlineExceeded,
    PositionStoreError,
    PositionStoreUnavailable,
)
from forebay.client.positions.position import PositionKey
from forebay.client.positions.store import StoreContext, Versioned


class BrokerPositions:
    """Documents in the brokers of a client, each in the broker of its sink."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        with _failures():
            found = self._positions.get(PositionKey.parse(key))
        return None if found is None else Versioned(found.document, found.version)

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        with _failures():
            return self._positions.write(PositionKey.parse(key), document, expected=expected or "")

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        with _failures():
            self._positions.delete(PositionKey.parse(key))

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        with _failures():
            return iter(sorted(str(found.key) for found in self._positions.list(prefix)))

    def close(self) -> None:
        """See ``PositionStore``; the connections are the client's."""


@contextmanager
def _failures() -> Iterator[None]:
    """Raise the errors of a broker as those of a store."""
    try:
        yield
    except AccessDenied as error:
        raise PositionStoreError(str(error), facts=error.facts) from error
    except (BrokerUnavailable, DeadlineExceeded) as error:
        raise PositionStoreUnavailable(str(error), facts=error.facts, retry_after_s=error.retry_after_s) from error


def open_store(context: StoreContext) -> BrokerPositions:
    """Return the store of the client's brokers."""
    return BrokerPositions(Positions(context.channels, timeout_s=context.rw_timeout_s))
