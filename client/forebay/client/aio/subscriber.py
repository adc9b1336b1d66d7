"""Subscriber of the asyncio client, with the state and stream of the thread client.

    async with client.subscriber("orders") as subscriber:
        async for delivery in subscriber:
            for record in delivery:
                ...
            delivery.ack()

While the tasks of the subscriber do not run, it neither answers the broker nor extends deadlines: code that works on
records for a long time must give the event loop a turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from forebay.client.aio.iterator import ClosableIterator
from forebay.client.consume.answers import AnswerKind
from forebay.client.consume.core import SubscriberCore
from forebay.client.consume.delivery import DeliveredRange
from forebay.client.consume.in_flight import InFlight
from forebay.client.consume.state import Submitted, SubscriptionState
from forebay.client.values.ranges import Range
from forebay.client.values.records import SettleResult


class Settled(Awaitable[list[SettleResult]]):
    """Answer to a delivery, which is sent whether it is awaited or not.

    Awaiting it returns the results with ``wait``, when the broker has answered, and otherwise an empty list.
    """

    __slots__ = ("_state", "_submitted")

    def __init__(self, state: SubscriptionState, submitted: Submitted) -> None:
        self._state = state
        self._submitted = submitted

    def __await__(self) -> Generator[Any, None, list[SettleResult]]:
        """Wait for the results. Cancelling the task has no effect on the answer."""
        return self._state.results(self._submitted).__await__()


class Delivery(DeliveredRange[Settled]):
    """Records of one partition, or a gap.

    An answer, as ``ack``, is sent when it is called; await it for its results.
    """


class AwaitingSettler:
    """Receiver of answers whose results can be awaited."""

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state
        self.clock = state.clock
        self.touch = state.touch

    def settle(
        self, delivery: InFlight, verb: AnswerKind, ranges: list[Range], *, wait: bool = False, **options: Any
    ) -> Settled:
        """Send an answer; with ``wait`` its results can be awaited."""
        submitted = self._state.submit(delivery, verb, ranges, wait=wait, **options)
        return Settled(self._state, submitted if wait else [])


class Subscriber(ClosableIterator[Delivery]):
    """Consumer of a subscription: an asynchronous iterator of deliveries, for the tasks of one event loop.

    It connects when the first delivery is requested. A task that is cancelled while it waits loses no delivery.
    """

    def __init__(self, core: SubscriberCore, on_close: Callable[[Subscriber], None]) -> None:
        self._core = core
        self._settler = AwaitingSettler(core.state)
        self._on_close = on_close
        self.sink: Final = core.sink
        self.subscription: Final = core.subscription
        self.consumer_id: Final = core.consumer_id

    async def take(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery; ``None`` if the subscriber was closed, or after ``timeout_s``.

        Raises as ``forebay.client.Subscriber.take``.
        """
        taken = await self._core.take(timeout_s)
        return None if taken is None else Delivery(taken, self._settler)

    async def __anext__(self) -> Delivery:
        """Return the next delivery, waiting for it; stops when closed. Raises as ``take``."""
        delivery = await self.take()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    def set_credit(self, *, records: int, bytes_: int) -> None:
        """Change the limits of what may be in flight; 0 stops deliveries. Takes effect immediately.

        The limits also apply after a reconnect.
        """
        self._core.set_credit(records=records, bytes_=bytes_)

    async def close(self) -> None:
        """End the iteration; acks are confirmed first, unsettled records are redelivered.

        The broker is notified of the close, so that it does not count as a failed attempt. Takes up to 5 s if the
        broker does not answer.
        """
        await self._core.close()
        self._on_close(self)

    def cut(self) -> None:
        """Close at once: the broker is not notified, and redelivers unsettled records."""
        self._core.cut()
        self._on_close(self)
