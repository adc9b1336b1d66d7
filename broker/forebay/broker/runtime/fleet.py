"""Fleet of a broker: the shards beside its own, and the shard of a sink.

The directory is read when it is asked for, and at most once in ``CACHE_S``. The own shard is listed as it is.

The shard of a sink is fixed when the sink is created. A creation goes to the *home* of the name: the first shard in its
rendezvous order. So no other shard may take it for its own: a shard accepts no creation before its name has been in
the directory for longer than the others use what they have read. Its hint says then that it *is joined*: a next process
need not wait, and one whose predecessor was killed before waits again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from forebay.broker.core.errors import InvalidSetting, NotOwner, ReadFailed, SinkNotFound
from forebay.broker.core.shards import Directory, DirectoryAway, ShardHint
from forebay.shards.rendezvous import ranked

_log: Final = logging.getLogger(__name__)
CACHE_S: Final = 2.0
"""Age up to which what was read of the directory is used."""
JOIN_S: Final = CACHE_S + 1.0
"""Time between the first hint of a shard and its first creation of a sink."""
CHECK_S: Final = 15.0
"""Interval at which an owner checks its own hint."""
RETRY_S: Final = 1.0
"""Pause after a directory that does not answer."""


class Fleet:
    """Shards of the fleet of one broker. Used on the loop."""

    def __init__(
        self,
        shard: str = "",
        epoch: int = 0,
        directory: Directory | None = None,
        *,
        journal: str = "",
        has_journal: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = lambda: 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """A broker without a journal has no ``directory`` and ``epoch`` 0; ``shard`` may have no name.

        ``journal`` is the identity of its journal. ``has_journal`` returns False if that was replaced by another one;
        it blocks, and raises ``DirectoryAway``.
        """
        self.shard: Final = shard
        self.endpoint = ""
        """HOST:PORT at which clients reach this broker; set before it serves."""
        self._epoch: Final = epoch
        self._journal: Final = journal
        self._has_journal: Final = has_journal
        self._directory: Final = directory if shard else None
        self._monotonic: Final = monotonic
        self._sleep: Final = sleep
        self._known: dict[str, ShardHint] = {}
        self._read_at: float | None = None
        """Time at which the last successful read began."""
        self._reading: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()

    @property
    def has_directory(self) -> bool:
        """True if the shard has a name, so that ``run`` has something to do."""
        return self._directory is not None

    @property
    def own(self) -> ShardHint:
        """Hint at this broker."""
        return ShardHint(self.shard, self.endpoint, self._epoch, self._journal, self._joined.is_set())

    @property
    def known(self) -> Sequence[ShardHint]:
        """Shards by name as of the last read, at most ``CHECK_S`` ago; none for a broker without a journal."""
        return self._listed() if self._epoch else ()

    async def shards(self) -> Sequence[ShardHint]:
        """Return the shards by name, this one as it is; none for a broker without a journal.

        Where the directory does not answer, they are those of the last read. Raises ``ReadFailed`` before the first.
        """
        if not self._epoch:
            return ()
        try:
            await self._refresh()
        except DirectoryAway as away:
            if self._read_at is None:
                raise ReadFailed(str(away)) from away
        return self._listed()

    def missing(self, sink: str) -> NotOwner | SinkNotFound:
        """Return the error for a sink that this broker does not have."""
        home = ranked(sink, [*self._known, self.shard])[0]
        return SinkNotFound(sink) if home == self.shard else NotOwner(sink, self.shard, self._known[home])

    async def check_creation(self, sink: str, shard: str) -> None:
        """Raise unless a sink that this broker does not have may be created here.

        ``shard`` is the one that its creator demands, or empty for its home. Raises ``NotOwner``, ``INVALID_SETTING``,
        and ``ReadFailed`` where the directory does not answer.
        """
        if self._directory is None:
            if shard != self.shard:
                raise InvalidSetting("shard", shard, "empty: this broker is of no fleet of named shards")
            return
        await self._joined.wait()
        try:
            await self._refresh()
        except DirectoryAway as away:
            raise ReadFailed(str(away)) from away
        if self._read_at is None or self._monotonic() - self._read_at > CACHE_S:
            raise ReadFailed("the directory of shards answered too late")
        if self.shard not in self._known:
            raise ReadFailed("the directory of shards does not have this one")
        names = [*self._known, self.shard]
        if shard and shard not in names:
            raise InvalidSetting("shard", shard, f"one of {', '.join(sorted(set(names)))}")
        home = shard or ranked(sink, names)[0]
        if home != self.shard:
            raise NotOwner(sink, self.shard, self._known[home])

    async def run(self) -> None:
        """Keep the own hint in the directory, until cancelled."""
        said = False
        directory = self._directory
        assert directory is not None, "a shard without a name has no directory"
        while True:
            try:
                await self._announce(directory)
            except DirectoryAway as away:
                if not said:
                    _log.warning("directory does not answer cause=%s", away)
                said = True
                await self._sleep(RETRY_S)
            else:
                said = False
                await self._sleep(CHECK_S)

    async def _announce(self, directory: Directory) -> None:
        """Write the own hint unless it is there, or that of a later owner.

        That of a former shard of the same name is replaced. So that it does not replace that of the present one, an
        owner that has lost its journal looks for it first.
        """
        await self._read(directory)
        found = self._known.get(self.shard)
        if found is None:  # also where it was deleted since
            self._joined.clear()
        elif found.is_joined:
            self._joined.set()
        if found is not None and self.own.is_another(found) and not await asyncio.to_thread(self._has_journal):
            _log.error("another journal has the address of the own one shard=%s owner=%s", self.shard, found.endpoint)
        elif found != self.own and (found is None or not self.own.is_behind(found)):
            await asyncio.to_thread(directory.put, self.own)
            self._known = {**self._known, self.shard: self.own}
            place = (self.shard, self.endpoint, self._epoch, self._joined.is_set())
            _log.info("directory has this owner shard=%s endpoint=%s epoch=%d joined=%s", *place)
        if not self._joined.is_set():
            await self._sleep(JOIN_S)
            self._joined.set()
            await self._announce(directory)

    def _listed(self) -> list[ShardHint]:
        listed = {**self._known}
        found = listed.get(self.shard)
        if found is None or not self.own.is_behind(found):
            listed[self.shard] = self.own
        return [listed[name] for name in sorted(listed)]

    async def _refresh(self) -> None:
        """Read the directory where the last read is older than ``CACHE_S``. Raises ``DirectoryAway``."""
        if self._directory is None or (self._read_at is not None and self._monotonic() - self._read_at <= CACHE_S):
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read(self._directory))
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._reading)

    async def _read(self, directory: Directory) -> None:
        began = self._monotonic()
        found = await asyncio.to_thread(directory.read)
        self._known = {hint.shard: hint for hint in found}
        self._read_at = began
