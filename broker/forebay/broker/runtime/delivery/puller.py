"""Pull: delivery in single calls to a consumer without a stream, held by a lease.

Every call of the same consumer id extends the lease. When it expires, the partitions go to other consumers, and its
records in flight are redelivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.settings import SECOND_US
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Delivered, Event, GapMet
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.errors.reasons import Reason

ANSWER_BYTES: Final = 8 << 20
"""Bytes of pages after which a call takes no more; the last page may be as large again."""
PULLERS_MAX: Final = 1_024
"""Leases of one subscription: every id that pulls has one until it expires."""
POLL_S: Final = 1.0
"""Longest sleep of a waiting call before it checks again, woken or not."""
ROOM_S: Final = 10.0
"""Wait of a call that finds no memory for an available record: the slowest reader is ended before."""
_NO_BOUND: Final = 1 << 62


@dataclass(slots=True)
class PullCall:
    """One call that pulls."""

    has_taken: bool = False
    """It has put records in flight, or taken the notice of a gap."""


class Puller:
    """Consumer of the pulls of one id on one subscription."""

    def __init__(self, consumer_id: str, lanes: Lanes, owners: Ownership, on_timer: Callable[[], None]) -> None:
        self._lanes = lanes
        self._owners = owners
        self._on_timer = on_timer
        self._events: list[Event] = []
        self._lock = asyncio.Lock()
        """Held by the pull that takes records: calls of one id run one after the other."""
        self.consumer: Consumer = owners.join(consumer_id, Credit(_NO_BOUND, _NO_BOUND), self._events.append)
        self.lease_until = 0.0
        self._call = PullCall()
        """The call that takes records now."""
        self.extend()

    def extend(self) -> None:
        """Restart the lease."""
        deadline_s = self._lanes.settings.ack_deadline_us / SECOND_US
        self.lease_until = self._lanes.now() + deadline_s

    @property
    def is_pulling(self) -> bool:
        """True while a call is active."""
        return self._lock.locked()

    @property
    def alive(self) -> bool:
        """True while a call is active or the lease holds, and it has not left."""
        held = self._lock.locked() or self._lanes.now() < self.lease_until
        return self._is_joined and held

    @property
    def _is_joined(self) -> bool:
        """True until it leaves or is ended, or another consumer has the id."""
        return self._owners.consumers.get(self.consumer.id) is self.consumer

    async def pull(
        self, records_max: int, wait_s: float, memory: Share | None = None, call: PullCall | None = None
    ) -> list[Delivered | GapMet]:
        """Take up to ``records_max`` records, and not many more bytes than one message holds well.

        Waits up to ``wait_s`` seconds for the first one, and at least ``ROOM_S`` where ``memory``, which wakes the
        consumer, has no room for it. The memory of the taken records stays counted there.
        """
        async with self._lock:
            self._call = call or PullCall()
            memory = self.consumer.memory = memory or Share()
            try:
                return await self._pull(records_max, wait_s, memory)
            finally:
                memory.stop_waiting()
                self.consumer.memory = Share()

    async def _pull(self, records_max: int, wait_s: float, memory: Share) -> list[Delivered | GapMet]:
        begun_at = self._lanes.now()
        while self._is_joined:
            self.extend()
            self.consumer.wakeup.clear()
            began = self._lanes.now()
            self._on_timer()
            taken = await self._pull_now(records_max)
            now = self._lanes.now()
            until = begun_at + (max(wait_s, ROOM_S) if memory.is_short else wait_s)
            if taken or now >= until:
                return taken
            timer = self.consumer.next_timer(began)
            next_poll = min(until, now + POLL_S, timer if timer is not None else until)
            try:
                async with asyncio.timeout(max(0.0, next_poll - now)):
                    await self.consumer.wakeup.wait()
            except TimeoutError:
                continue
        return []

    async def _pull_now(self, records_max: int) -> list[Delivered | GapMet]:
        taken: list[Delivered | GapMet] = []
        left, size = records_max, 0
        for lane in self._lanes.of(self.consumer.id, after=self.consumer.sent_last):
            partition = self._lanes.partition_of(lane)
            while left > 0 and size < ANSWER_BYTES and partition not in self._lanes.handovers:
                event = await self.consumer.next_event(partition, lane, records_max=left)
                if event is None:
                    break
                self.consumer.sent_last = partition
                if isinstance(event, Delivered | GapMet):
                    self._call.has_taken = True
                if isinstance(event, Delivered):
                    left -= sum(found.size for found in event.ranges)
                    size += sum(len(body.data) for _, body in event.pages)
                    taken.append(event)
                elif isinstance(event, GapMet):
                    taken.append(event)
        self._events.clear()
        return taken

    @contextmanager
    def answering(self) -> Iterator[PullCall]:
        """Take and answer: what was taken and cannot be answered is released, and counts as no attempt."""
        call = PullCall()
        is_answered = False
        try:
            yield call
            is_answered = True
        finally:
            if call.has_taken and not is_answered and self._is_joined:
                self._owners.leave(self.consumer, orderly=True)
                self.lease_until = 0.0
                self._events.clear()

    def close(self) -> None:
        """Release the partitions."""
        if self.consumer.closed is None:
            self._owners.leave(self.consumer, orderly=False)


class Pullers:
    """Pulling consumers of one subscription, by id."""

    def __init__(self, lanes: Lanes, owners: Ownership, on_timer: Callable[[], None]) -> None:
        """``on_timer`` processes what is due in the lanes."""
        self._lanes = lanes
        self._owners = owners
        self._on_timer = on_timer
        self._pullers: dict[str, Puller] = {}

    def get(self, consumer_id: str) -> Puller:
        """Return the puller of an id, created if it is new or its lease expired; raises ``TOO_MANY_STREAMS``."""
        self.sweep()
        found = self._pullers.get(consumer_id)
        if found is None:
            if len(self._pullers) >= PULLERS_MAX:
                raise BrokerError(Reason.TOO_MANY_STREAMS, "pulling consumers of one subscription", bound=PULLERS_MAX)
            found = self._pullers[consumer_id] = Puller(consumer_id, self._lanes, self._owners, self._on_timer)
        return found

    def accepts(self, consumer_id: str) -> bool:
        """Return whether a consumer accepts deliveries; one that pulls does so only during a call."""
        found = self._pullers.get(consumer_id)
        return found is None or found.is_pulling or not found.alive

    def renew(self, consumer_id: str) -> None:
        """Restart the lease of a consumer that answered or extended its deadline."""
        found = self._pullers.get(consumer_id)
        if found is not None and found.alive:
            found.extend()

    def sweep(self) -> None:
        """End the consumers whose lease expired."""
        for consumer_id, puller in list(self._pullers.items()):
            if not puller.alive:
                puller.close()
                del self._pullers[consumer_id]
