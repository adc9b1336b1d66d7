"""Memory of streams at run time: waits for room, wake-ups, and the end of streams whose peers stall.

The count is that of the process: an outgoing page is held twice, as a message and as gRPC's copy of it, until flow
control has released it. So ``reserve`` counts double.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from forebay.broker.core.resources.stream_budget import StreamBudget, StreamShare

COPIES: Final = 3
"""Copies of a page that is sent: as it was read, in its message, and in gRPC's buffers."""
PEAK_PARTS: Final = 4
CALM_S: Final = 30.0
"""Minimum interval between returns of free memory to the system."""
SHED_PARTS: Final = 4
"""Fraction of the budget that one check frees at most, so that not all slow streams end at once."""


class Share:
    """Memory of one stream. Used on the loop; a context manager that releases everything at its end."""

    def __init__(
        self,
        memory: StreamMemory | None = None,
        wake: Callable[[], None] = lambda: None,
        on_shed: Callable[[], None] = lambda: None,
    ) -> None:
        """Without ``memory`` there is always room. ``on_shed``: see ``shed``."""
        self._memory = memory
        self._account = StreamShare()
        self._wake = wake
        self._on_shed = on_shed
        self._room = asyncio.Event()
        self.is_short = False
        """True if the last request found no room."""
        self.shed = asyncio.Event()
        """Set when the stream must end: its peer reads nothing, and other streams need the memory."""

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._account.held

    @property
    def step_bytes(self) -> int | None:
        """Bytes of pages that one step should hold at most; None is unlimited."""
        return None if self._memory is None else self._memory.budget.step_bytes() // COPIES

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes of pages; False if there is no room, and then ``wake`` is called later."""
        self.is_short = self._memory is not None and not self._memory.reserve(self, self._account, size * COPIES)
        return not self.is_short

    def stop_waiting(self) -> None:
        """Withdraw the request for room, in favour of other streams."""
        if self._memory is not None:
            self._memory.withdraw(self)

    async def room(self, size: int) -> None:
        """Reserve ``size`` bytes of pages, after a wait if necessary."""
        while not self.reserve(size):
            self._room.clear()
            await self._room.wait()

    def acquire(self, size: int) -> None:
        """Count ``size`` bytes that are held already, whether they fit or not."""
        if self._memory is not None:
            self._memory.acquire(self, self._account, size)

    async def settled(self) -> None:
        """Wait until the held memory fits again: a stream with memory continues only if others have room."""
        while self._memory is not None and not self._memory.may_continue(self, self._account):
            self._room.clear()
            await self._room.wait()

    def release_pages(self, size: int) -> None:
        """Release the memory of pages that the peer received, or that are not sent."""
        self.release(size * COPIES)

    def release(self, size: int) -> None:
        """Release bytes counted by ``acquire``."""
        if self._memory is not None:
            self._memory.release(self._account, size)
            self._room.set()

    def end(self) -> None:
        """End the stream, since other streams need its memory."""
        self.shed.set()
        self._on_shed()

    def close(self) -> None:
        """Release everything."""
        if self._memory is not None:
            self._memory.leave(self, self._account)

    def woken(self) -> None:
        """Check again after a wake-up."""
        self._room.set()
        self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StreamMemory:
    """Memory of all streams of a broker. Used on the loop only."""

    def __init__(
        self, bytes_max: int, now: Callable[[], float], *, on_shed: Callable[[int], None] = lambda held: None
    ) -> None:
        """``now`` is monotonic, in seconds; ``on_shed`` gets the bytes held by each ended stream."""
        self.budget = StreamBudget(bytes_max)
        self._now = now
        self._on_shed = on_shed
        self._beginning: dict[Share, int] = {}
        """Streams that hold nothing and wait for room, in order, with the requested bytes."""
        self._going_on: dict[Share, int] = {}
        """Streams that hold memory and wait for more; the others acquire precedence."""
        self._called: set[Share] = set()
        """Streams that were woken and have not retried yet: they acquire precedence."""
        self._shares: dict[StreamShare, Share] = {}
        self._peak = 0
        self._calmed_at = now()

    def share(self, wake: Callable[[], None] = lambda: None, on_shed: Callable[[], None] = lambda: None) -> Share:
        """Return the memory of a new stream."""
        return Share(self, wake, on_shed)

    def reserve(self, share: Share, account: StreamShare, size: int) -> bool:
        """See ``Share.reserve``. A stream that asks again keeps its place."""
        if self._is_turn(share) and self.budget.fits(account, size):
            self._remove(share)
            self._shares[account] = share
            self.budget.add(account, size, self._now())
            return True
        self._enqueue(share, account, size)
        return False

    def may_continue(self, share: Share, account: StreamShare) -> bool:
        """See ``Share.settled``."""
        if not account.held or (self._is_turn(share) and self.budget.fits(account, 0)):
            self._remove(share)
            return True
        self._enqueue(share, account, 0)
        return False

    def acquire(self, share: Share, account: StreamShare, size: int) -> None:
        """See ``Share.acquire``."""
        self._shares[account] = share
        self.budget.add(account, size, self._now())

    def release(self, account: StreamShare, size: int) -> None:
        """See ``Share.release``."""
        self.budget.remove(account, size, self._now())
        self._wake()

    def withdraw(self, share: Share) -> None:
        """See ``Share.stop_waiting``."""
        self._remove(share)
        self._wake()

    def leave(self, share: Share, account: StreamShare) -> None:
        """Remove an ended stream."""
        self.budget.remove(account, account.held, self._now())
        self._shares.pop(account, None)
        self._remove(share)
        self._wake()

    def calmed(self) -> bool:
        """Return whether most of the peak use is free again, to return it to the system.

        True once per peak, and at most every 30 s.
        """
        self._peak = max(self._peak, self.budget.used)
        now = self._now()
        high = self._peak > self.budget.bytes_max // PEAK_PARTS
        if not high or self.budget.used > self._peak // PEAK_PARTS or now - self._calmed_at < CALM_S:
            return False
        self._peak, self._calmed_at = self.budget.used, now
        return True

    def check(self) -> None:
        """Wake streams that have room now, and end stalled ones while others wait: once a second."""
        self._wake()
        if not self._beginning:
            return
        for account in self.budget.stalled(self._now(), self._wanted()):
            found = self._shares.get(account)
            if found is not None and not found.shed.is_set():
                found.end()
                self._on_shed(account.held)

    def _wanted(self) -> int:
        """Return the bytes that should be free: the first waiting stream then has room.

        Streams that hold memory continue when their own peers read; no stream is ended for them.
        """
        first = next(iter(self._beginning.values()))
        return max(first, min(sum(self._beginning.values()), self.budget.bytes_max // SHED_PARTS))

    def _is_turn(self, share: Share) -> bool:
        """Return whether no stream is before this one."""
        return share in self._called or next(iter(self._beginning), share) is share

    def _remove(self, share: Share) -> None:
        """Remove a stream from the queues."""
        self._called.discard(share)
        self._beginning.pop(share, None)
        self._going_on.pop(share, None)

    def _enqueue(self, share: Share, account: StreamShare, size: int) -> None:
        """Let a stream wait: where it waits already, or first if it was woken and found no room."""
        queue, other = self._beginning, self._going_on
        if account.held:
            queue, other = other, queue
        other.pop(share, None)
        if share in self._called:
            self._called.discard(share)
            others = dict(queue)
            queue.clear()
            queue[share] = size
            queue.update(others)
        else:
            queue[share] = size

    def _wake(self) -> None:
        """Wake the streams that have room, in order. Each asks again, or withdraws."""
        free = self.budget.bytes_max - self.budget.used
        free, empty = self._call(self._beginning, free, empty=self.budget.used == 0)
        if not self._beginning:
            self._call(self._going_on, free - self.budget.bytes_max // 2, empty=empty)

    def _call(self, waiting: dict[Share, int], free: int, *, empty: bool) -> tuple[int, bool]:
        """Wake the streams that fit into ``free`` bytes, or a larger one if no memory is held."""
        while waiting:
            share, size = next(iter(waiting.items()))
            if size > free and not empty:
                break
            free, empty = free - size, False
            del waiting[share]
            self._called.add(share)
            share.woken()
        return free, empty
