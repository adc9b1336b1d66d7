"""Fleet: brokers of several shards behind one address, and the shard of each sink.

`forebay://a:7461,b:7461` names any members. One of them lists the shards and their owners; that list is a hint, and is
read again when an owner does not answer. Owners are asked for the name of their shard before they are trusted.

The shard of a sink is fixed when the sink is created. Where shards were added since, it is not the first one in the
rendezvous order of its name. So the shards are asked in that order, and the answer is kept until it proves wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from forebay.client.errors import (
    BrokerUnavailable,
    Closed,
    DeadlineExceeded,
    ForebayError,
    InvalidArgument,
    SinkNotFound,
)
from forebay.client.shards.shard import Shard
from forebay.client.transport.endpoint import FLEET
from forebay.errors.reasons import Reason
from forebay.shards.rendezvous import DLQ_SUFFIX, ranked

PLACES_MAX: Final = 100_000
"""Sinks whose shard is remembered; above it all are forgotten."""
HOPS_MAX: Final = 2
"""Times that a call, or the opening of a stream, follows ``NOT_OWNER``."""
_SILENT: Final = (BrokerUnavailable, DeadlineExceeded)


class Fleet:
    """Shards and sinks of one client, as far as they are known. Thread-safe."""

    def __init__(
        self,
        members: Sequence[str],
        list_shards: Callable[[str], Awaitable[tuple[str, Sequence[Shard]]]],
        has_sink: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        """Nothing is asked yet.

        ``list_shards(endpoint)`` returns the shard of a broker and all that it knows, ``has_sink(endpoint, sink)``
        whether a broker has a sink. Both raise ``ForebayError``.
        """
        self.members: Final = tuple(members)
        self._list = list_shards
        self._has = has_sink
        self._shards: dict[str, Shard] = {}
        """By name; replaced as a whole."""
        self._is_stale = True
        self._silent: set[str] = set()
        """Endpoints that have not answered since the last read."""
        self._confirmed: set[tuple[str, str]] = set()
        """Shards and endpoints whose broker has said that it owns the shard."""
        self._places: dict[str, str] = {}
        """Shard by sink."""
        self._led: dict[str, str] = {}
        """Endpoint by sink, as ``NOT_OWNER`` has named it; used once."""

    @property
    def address(self) -> str:
        """Address of the fleet."""
        return f"{FLEET}{','.join(self.members)}"

    @property
    def owners(self) -> tuple[str, ...]:
        """Endpoints of the owners by the names of their shards; the members before the first answer."""
        return tuple(shard.endpoint for _, shard in sorted(self._shards.items())) or self.members

    def guess(self, sink: str) -> str:
        """Return the endpoint of a sink as far as it is known, without asking."""
        shards = self._shards
        if not shards:
            return self.members[0]
        placed = self._places.get(sink)
        return shards[placed if placed in shards else ranked(sink, shards)[0]].endpoint

    def is_placed(self, sink: str) -> bool:
        """Return True if ``guess`` is not only a guess."""
        return not self._is_stale and (len(self._shards) == 1 or self._places.get(sink) in self._shards)

    def note(self, sink: str, endpoint: str) -> None:
        """Record that the owner at an endpoint has listed a sink; of several shards the first counts."""
        for name, shard in self._shards.items():
            if shard.endpoint == endpoint:
                placed = self._places.get(sink, name)
                self._place(sink, ranked(sink, {name, placed} & self._shards.keys())[0])

    async def shards(self, *, again: bool = False) -> list[Shard]:
        """Return the shards by name; ``again`` reads them, also if they are known.

        Raises ``BrokerUnavailable`` if no member answers, and ``INVALID_SETTING`` for members that are no fleet.
        """
        if again:
            self._is_stale = True
        await self._load()
        return [shard for _, shard in sorted(self._shards.items())]

    async def locate(self, sink: str, *, creates_in: str | None = None) -> str:
        """Return the endpoint of the broker that has a sink; of its home if there is none.

        With ``creates_in``, a shard or empty for the home, it is that of the broker that creates it. Each shard is
        asked then, so that no name exists twice: raises ``BrokerUnavailable`` if one does not answer, and no shard has
        the sink.
        """
        if creates_in is not None:  # also a shard that was added a moment ago is asked
            self._is_stale = True
        is_new = await self._load()
        led = self._led.pop(sink, None)
        if led is not None and creates_in is None:
            return led
        placed = self._places.get(sink)
        if placed is None or placed not in self._shards or creates_in is not None:
            placed = await self._search(sink)
            if placed is None and not is_new:  # it may be in a shard that was added since
                self._is_stale = True
                await self._load()
                placed = await self._search(sink)
        if placed is None:
            placed = creates_in if creates_in in self._shards else ranked(sink, self._shards)[0]
        return await self._owner(placed)

    def misplaced(self, sink: str, endpoint: str, error: ForebayError, hops: int) -> bool:
        """Record the error of a call for a sink; return True to call ``locate`` again.

        ``hops`` is the number of times that this call has followed before.
        """
        if error.reason == Reason.NOT_OWNER.name:
            self._places.pop(sink, None)
            is_known = error.facts.get("shard", "") in self._shards
            if hops == 0 and error.facts.get("endpoint", ""):
                self._led[sink] = error.facts["endpoint"]
            if hops > 0 or not is_known:
                self._is_stale = True
            return hops < HOPS_MAX
        if isinstance(error, SinkNotFound):
            self._places.pop(sink, None)
            self._is_stale = True
        self.note_failure(endpoint, error)
        return False

    def note_failure(self, endpoint: str, error: ForebayError) -> None:
        """Record the error of a call to an endpoint: after no answer the shards are read before the next call."""
        if isinstance(error, _SILENT):
            self._lost(endpoint)

    def shard_of(self, sink: str) -> str:
        """Return the name of the shard of a sink that ``locate`` has found, or of its home."""
        placed = self._places.get(sink)
        return placed if placed is not None else ranked(sink, self._shards)[0]

    async def _load(self) -> bool:
        """Read the shards where they are unknown, or an owner does not answer; returns True if they were read."""
        if self._shards and not self._is_stale:
            return False
        self._is_stale = False
        silent, self._silent = self._silent, set()
        known = dict.fromkeys([*self.owners, *self.members])
        failure: ForebayError | None = None
        has_answer = False
        for endpoint in sorted(known, key=lambda each: each in silent):
            if has_answer and endpoint in silent:
                break  # it would only delay the calls to other shards
            try:
                own, listed = await self._list(endpoint)
            except Closed:
                self._is_stale = True
                raise
            except ForebayError as error:  # the next member may answer
                failure = error
                continue
            except BaseException:
                self._is_stale = True
                raise
            self._take(endpoint, own, listed)
            has_answer = True
            if not silent & set(self.owners):
                break  # each owner that was lost has a successor
        if not has_answer:
            self._is_stale = True
            if failure is not None and not isinstance(failure, _SILENT):
                raise failure
            raise BrokerUnavailable(f"no member of {self.address} answers: {failure}") from failure
        return True

    def _take(self, endpoint: str, own: str, listed: Sequence[Shard]) -> None:
        """Replace what is known; of two owners of a shard that of the higher epoch counts.

        Not so of a former shard: the name was given to another one, whose epochs begin again.
        """
        if not listed and len(self.members) > 1:
            self._is_stale = True
            raise InvalidArgument(
                f"{self.address}: the broker at {endpoint} has no journal, so it is of no fleet; name brokers that "
                f"have one, or independent brokers without {FLEET}",
                reason=Reason.INVALID_SETTING,
                facts={"field": "endpoint", "value": endpoint},
            )
        found = {shard.name: shard for shard in listed} or {"": Shard("", endpoint, 0)}
        if "" in found:  # its only owner answers here, whatever it calls itself
            found = {"": replace(found[""], endpoint=endpoint)}
        before = self._shards
        self._shards = {
            name: before[name] if name in before and shard.is_behind(before[name]) else shard
            for name, shard in found.items()
        }
        if own in self._shards and self._shards[own].endpoint == endpoint:
            self._confirmed.add((own, endpoint))

    async def _search(self, sink: str) -> str | None:
        """Return the shard that has a sink, None if none has it; the only shard is not asked."""
        shards = self._shards
        if len(shards) == 1:
            return next(iter(shards))
        failure: ForebayError | None = None
        names = [sink, sink.removesuffix(DLQ_SUFFIX)] if sink.endswith(DLQ_SUFFIX) else [sink]
        for name in names:  # dead letters are where their origin is, also before there are any
            for shard in ranked(sink, shards):
                try:
                    if await self._has(await self._owner(shard), name):
                        self._place(sink, shard)
                        return shard
                except _SILENT as error:
                    self._lost(shards[shard].endpoint)
                    failure = error
        if failure is not None:
            raise failure
        return None

    async def _owner(self, name: str) -> str:
        """Return the endpoint of the owner of a shard, which has said so itself."""
        shard = self._shards.get(name)
        if shard is None:  # another thread has read the shards
            raise BrokerUnavailable(f"shard {name!r} is not listed any more")
        if not name or (name, shard.endpoint) in self._confirmed:
            return shard.endpoint
        try:
            own, _ = await self._list(shard.endpoint)
        except _SILENT:
            self._lost(shard.endpoint)
            raise
        if own != name:
            self._lost(shard.endpoint)
            raise BrokerUnavailable(
                f"the broker at {shard.endpoint} owns shard {own!r}, not {name!r}: the directory is out of date"
            )
        self._confirmed.add((name, shard.endpoint))
        return shard.endpoint

    def _place(self, sink: str, shard: str) -> None:
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[sink] = shard

    def _lost(self, endpoint: str) -> None:
        """Read the shards before the next call: the broker at an endpoint does not answer."""
        self._silent.add(endpoint)
        self._confirmed = {pair for pair in self._confirmed.copy() if pair[1] != endpoint}
        self._is_stale = True
