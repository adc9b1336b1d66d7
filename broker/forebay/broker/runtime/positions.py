"""Saved positions of named consumers: decided at once, reported when they are durable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.positions.table import PositionTable
from forebay.broker.core.writes import DropPosition, PutPosition, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.errors.reasons import Reason


class Positions:
    """Saved positions of a broker. Used on the loop."""

    def __init__(self, committer: Committer, found: Mapping[str, bytes | None]) -> None:
        self._committer = committer
        self._table = PositionTable({key: document for key, document in found.items() if document is not None})
        self._damaged = {key for key, document in found.items() if document is None}
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """Changes that are not durable yet, by key."""

    async def read(self, key: str) -> bytes | None:
        """Return the document of a position; None if there is none. Raises ``POSITION_DAMAGED``."""
        if key in self._damaged:
            raise BrokerError(Reason.POSITION_DAMAGED, key=key)
        document = self._table.get(key)
        await self._durable(key)
        return document

    async def write(self, key: str, document: bytes, expected: str) -> str:
        """Store a document if the stored version is ``expected``; returns its version when it is durable.

        Raises as ``PositionTable.write``, and ``POSITION_DAMAGED``.
        """
        if key in self._damaged:
            raise BrokerError(Reason.POSITION_DAMAGED, key=key)
        version = self._table.write(key, document, expected)
        await self._commit(key, PutPosition(key, document))
        return version

    async def delete(self, key: str) -> None:
        """Delete a position, durably. No effect if there is none."""
        if self._table.delete(key) or key in self._damaged:
            self._damaged.discard(key)
            await self._commit(key, DropPosition(key))
        else:
            await self._durable(key)

    async def list(self, prefix: str, after: str, limit: int) -> Sequence[tuple[str, bytes]]:
        """Return up to ``limit`` positions above ``after`` whose keys begin with ``prefix``, in order.

        A damaged one has an empty document.
        """
        damaged = (key for key in self._damaged if key.startswith(prefix) and key > after)
        keys = sorted([*self._table.list(prefix, after, limit), *damaged])[:limit]
        found = [(key, self._table.get(key) or b"") for key in keys]
        for key, _ in found:
            await self._durable(key)
        return found

    async def _commit(self, key: str, write: Write) -> None:
        written = self._committer.write([write])
        self._waiting[key] = written
        written.add_done_callback(lambda done: self._settle(key, done))
        await asyncio.shield(written)

    def _settle(self, key: str, done: asyncio.Future[None]) -> None:
        if self._waiting.get(key) is done:
            del self._waiting[key]

    async def _durable(self, key: str) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            await asyncio.shield(waiting)
