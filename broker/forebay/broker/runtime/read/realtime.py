"""Switch of the memory that serves readers at the head, for the whole broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from forebay.broker.core.writes import PutRealtime
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.read.read_cache import ReadCache

_log: Final = logging.getLogger(__name__)


class Realtime:
    """Switch of one broker: a stored choice, or else its settings. Used on the loop."""

    def __init__(
        self, read_cache: ReadCache, committer: Committer, *, tail_bytes: int, configured: bool, chosen: bool | None
    ) -> None:
        self._read_cache = read_cache
        self._committer = committer
        self._tail_bytes = tail_bytes
        self._configured = configured
        self.chosen = chosen
        """Stored choice; None without one."""
        self._overloaded = False
        read_cache.bound(self._bound)

    @property
    def enabled(self) -> bool:
        """True if memory serves readers at the head, in sinks that allow it."""
        return self._configured if self.chosen is None else self.chosen

    async def choose(self, enabled: bool | None) -> None:
        """Store a choice, and apply it when it is durable; None withdraws it. Raises ``StoreFenced``."""
        written = self._committer.write([PutRealtime(enabled)])
        written.add_done_callback(lambda done: None if done.exception() else self._chosen(enabled))
        await asyncio.shield(written)  # the caller may leave: the choice is applied anyway

    def relieve(self, overloaded: bool, on_freed: Callable[[], None]) -> None:
        """Free the memory while the process uses too much; ``on_freed`` is called when it is free."""
        self._overloaded = overloaded
        self._read_cache.bound(self._bound, on_freed)

    def _chosen(self, enabled: bool | None) -> None:
        self.chosen = enabled
        self._read_cache.restart()
        self._read_cache.bound(self._bound)
        _log.info("realtime was switched enabled=%s chosen=%s", self.enabled, enabled is not None)

    @property
    def _bound(self) -> int:
        return self._tail_bytes if self.enabled and not self._overloaded else 0
