"""State of a subscriber: its receive buffer, its answers, and its current stream.

Users take deliveries and settle them; the stream's job applies messages of the broker; its call requests the messages
to send. One lock protects all of it and is never held while waiting for the network.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Final

from forebay.client.consume.answers import RANGES_MAX, Answer, AnswerKind, Answers, pb_range
from forebay.client.consume.in_flight import InFlight, Loading
from forebay.client.consume.receive_buffer import ReceiveBuffer
from forebay.client.errors import DeadlineExceeded, ForebayError
from forebay.client.telemetry import Telemetry
from forebay.client.transport.io import Io
from forebay.client.transport.threads import THREADS
from forebay.client.values.ranges import Range, count, intersect
from forebay.client.values.records import SettleOutcome, SettleResult
from forebay.v1 import buffer_service_pb2 as pb

NACKS: Final = frozenset((AnswerKind.NACK, AnswerKind.DEAD_LETTER))
SETTLED: Final = frozenset((SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED))
TOUCHES_PER_DEADLINE: Final = 10
"""Checks per ack deadline for a due extension."""


Submitted = list[Answer] | list[SettleResult]
"""Answers that were sent, one unless there are many ranges, or the results of one that has no effect."""


class DeliverStreamState:
    """State of one stream. Protected by the lock of ``SubscriptionState``."""

    def __init__(self) -> None:
        self.is_open = False
        """`opened` was received."""
        self.has_ended = False
        """Nothing more is sent or read."""


class SubscriptionState:
    """Receive buffer and answers of one subscriber. Answers to its deliveries are submitted here."""

    def __init__(
        self, telemetry: Telemetry, clock: Callable[[], float], *, settle_timeout_s: float = 30.0, io: Io = THREADS
    ) -> None:
        self._settle_timeout_s = settle_timeout_s
        """Time limit for the results of an answer."""
        self._telemetry = telemetry
        self.clock: Final = clock
        self._lock = threading.Lock()
        self._to_send = io.condition(self._lock)
        """The sender waits here."""
        self._news = io.condition(self._lock)
        """Users wait here for deliveries, results and the end; the stream's thread waits here between streams."""
        self._received = ReceiveBuffer()
        self._answers = Answers()
        self._stream: DeliverStreamState | None = None
        self._ack_deadline_s = 30.0
        self._queue_at = 0.0
        """Time of the next check of the queue for due extensions."""
        self._fatal: ForebayError | None = None
        self._closed = False
        self.incarnation = ""
        self.subscription_incarnation = ""

    # --- users ---------------------------------------------------------------------------------------------------

    async def take(self, timeout_s: float | None) -> InFlight | None:
        """Return the next delivery; ``None`` if closed or timed out. Raises the error that ended the stream."""
        until = None if timeout_s is None else self.clock() + timeout_s
        with self._lock:
            delivery = await self._next(until)
        if delivery is not None and delivery.gap is None:
            delivery.span = self._telemetry.deliver(delivery.partition, len(delivery), delivery.traceparents)
        return delivery

    async def _next(self, until: float | None) -> InFlight | None:
        while not self._closed:
            now = self.clock()
            if now >= self._queue_at:
                self._extend(None, now)
            delivery = self._received.take()
            if delivery is not None:
                delivery.taken_at = now
                delivery.touch_at = self._queue_at  # it was checked with the queue
                if not self._received.has_next:
                    self._to_send.notify()  # an ack that was held for merging is sent now
                return delivery
            if self._fatal is not None:
                raise copy.copy(self._fatal)
            if until is not None and now >= until:
                return None
            ends = [] if until is None else [until]
            if self._received:  # what it needs is being fetched, and its deadline runs
                ends.append(self._queue_at)
            await self._news.wait_for_notify(min(ends) - now if ends else None)
        return None

    def touch(self, delivery: InFlight) -> float:
        """Extend the ack deadline of a delivery in process, if it is due; return the time of the next check."""
        now = self.clock()
        if now >= delivery.touch_at:  # read without the lock: at worst one more check
            with self._lock:
                delivery.touch_at = self._extend(delivery, now)
        return delivery.touch_at

    def submit(
        self,
        delivery: InFlight,
        verb: AnswerKind,
        ranges: list[Range],
        *,
        delay_s: float | None = None,
        reason: str = "",
        wait: bool = False,
    ) -> Submitted:
        """Send an answer; ``wait`` if ``results`` will wait for its results."""
        now = self.clock()
        with self._lock:
            to_send = ranges if verb is AnswerKind.ACK_UNTIL else _within(delivery.left, ranges)
            is_current = self._stream is not None and self._received.is_current(delivery) and not delivery.stale
            ended: list[InFlight] = []
            answers: list[Answer] = []
            if is_current and to_send:
                for at in range(0, len(to_send), RANGES_MAX):
                    part = to_send[at : at + RANGES_MAX]
                    answer = Answer(
                        verb,
                        delivery.partition,
                        delivery.owner_epoch,
                        delivery.revision,
                        part,
                        delay_s,
                        reason,
                        is_awaited=wait,
                        is_selective=delivery.relaxed,
                        created_at=now,
                    )
                    answers.append(answer)
                    if self._answers.put(answer):
                        answer.span = self._telemetry.settle(verb.value, delivery.partition, count(part), delivery.span)
                self._to_send.notify()
                delivery.settle(to_send)
                last = to_send[-1][1]
                if verb is AnswerKind.ACK_UNTIL and (
                    last <= delivery.last_offset or self._received.has_arrived(delivery.partition, last)
                ):
                    ended = self._received.settled_until(delivery.partition, delivery.owner_epoch, last)
                if verb is AnswerKind.NACK and not delivery.relaxed:
                    ended = self._received.nacked(delivery, to_send[0][0])
                    delivery.void(to_send[0][0])
                elif verb in NACKS and not (delivery.left and delivery.left[-1][0] > to_send[0][0]):
                    delivery.void(to_send[0][0])  # no later record is left to be settled
                if not delivery.left:
                    self._received.settled(delivery)
                    ended = [*(one for one in ended if one is not delivery), delivery]
            submitted: Submitted = answers
            if wait and not answers:
                # A call that was not answered in time is repeated: it waits for the same answer.
                owner = delivery.partition, delivery.owner_epoch, delivery.revision
                submitted = self._answers.unanswered(verb, owner, ranges) or self._local(delivery, ranges)
        self._processed(ended, now, verb.value if verb in NACKS else "")
        return submitted

    def _local(self, delivery: InFlight, ranges: list[Range]) -> list[SettleResult]:
        """Return the results of an answer that is not sent."""
        outcome = SettleOutcome.ALREADY_SETTLED
        if self._stream is None or not self._received.is_current(delivery) or delivery.void_from is not None:
            outcome = SettleOutcome.STALE
        return [SettleResult(delivery.partition, first, last, outcome) for first, last in ranges]

    async def results(self, submitted: Submitted) -> list[SettleResult]:
        """Return the results of answers, once the broker has answered."""
        until = self.clock() + self._settle_timeout_s
        found: list[SettleResult] = []
        for one in submitted:
            found += await self._results(one, until) if isinstance(one, Answer) else [one]
        return found

    async def _results(self, answer: Answer, until: float) -> list[SettleResult]:
        with self._lock:
            while answer.results is None:
                left_s = until - self.clock()
                if left_s <= 0:
                    raise DeadlineExceeded(
                        f"the broker did not answer the {answer.verb} of partition {answer.partition} within "
                        f"{self._settle_timeout_s:g} s; its effect is unknown; repeat the call to wait on"
                    )
                await self._news.wait_for_notify(left_s)
        return answer.results

    def set_credit(self, credit: pb.Credit) -> None:
        """Change the limits of what may be in flight."""
        with self._lock:
            self._answers.put_message(pb.DeliverRequest(credit=credit))
            self._to_send.notify()

    async def close(self, timeout_s: float) -> None:
        """Return no more deliveries; wait until all answers have results, or the stream has ended."""
        until = self.clock() + timeout_s
        self.cut()
        with self._lock:
            while self._stream is not None and not self._answers.is_idle():
                left_s = until - self.clock()
                if left_s <= 0:
                    break
                await self._news.wait_for_notify(left_s)

    def cut(self) -> None:
        """Return no more deliveries."""
        with self._lock:
            self._closed = True
            self._news.notify_all()
            self._to_send.notify()

    def is_closed(self) -> bool:
        """True if it was closed."""
        return self._closed

    def is_open(self) -> bool:
        """True if a stream is open."""
        return self._stream is not None

    def _extend(self, in_process: InFlight | None, now: float) -> float:
        """Extend what is due of the queue and of a delivery in process; return the time of the next check."""
        self._queue_at = now + self._ack_deadline_s / TOUCHES_PER_DEADLINE
        for partition, owner_epoch, ranges in self._received.extensions_due(in_process, self._ack_deadline_s, now):
            extend = pb.Extend(
                partition=partition, owner_epoch=owner_epoch, ranges=[pb_range(one) for one in ranges[:RANGES_MAX]]
            )
            self._answers.put_message(pb.DeliverRequest(extend=extend))
            self._to_send.notify()
        return self._queue_at

    def _processed(self, ended: list[InFlight], now: float, error: str) -> None:
        for delivery in ended:
            span, delivery.span = delivery.span, None
            if span is not None:
                self._telemetry.processed(span, now - delivery.taken_at, error)

    # --- the stream ----------------------------------------------------------------------------------------------

    async def next_request(self, stream: DeliverStreamState) -> pb.DeliverRequest | None:
        """Return the next message to send, waiting for it; ``None`` at the end of the stream."""
        with self._lock:
            while not stream.has_ended:
                if stream.is_open:
                    # While deliveries can be taken, holding this ack delays nothing.
                    message = self._answers.take(gather=self._received.has_next and not self._closed)
                    if message is not None:
                        return message
                    if self._closed:
                        return None
                await self._to_send.wait_for_notify()
        return None

    def opened(self, stream: DeliverStreamState, message: pb.DeliverOpened) -> None:
        """Apply the opening answer of the broker."""
        with self._lock:
            stream.is_open = True
            self._stream = stream
            self.incarnation = message.incarnation
            self.subscription_incarnation = message.subscription_incarnation
            deadline_s = message.ack_deadline.seconds + message.ack_deadline.nanos / 1e9
            self._ack_deadline_s = deadline_s or self._ack_deadline_s
            self._queue_at = 0.0
            self._to_send.notify()

    def arrived(self, delivery: InFlight) -> None:
        """Queue a delivery or gap."""
        with self._lock:
            if self._received.arrived(delivery, self.clock()):
                self._news.notify_all()

    def loaded(self, loading: Loading) -> None:
        """Let deliveries be taken for which something was fetched."""
        with self._lock:
            loading.is_done = True
            self._news.notify_all()

    def pinged(self) -> None:
        """Answer a ping of the broker."""
        with self._lock:
            self._answers.put_message(pb.DeliverRequest(pong=pb.Pong()))
            self._to_send.notify()

    def assigned(self, message: pb.Assignment) -> None:
        """Apply an assignment of partitions."""
        owners = {one.partition: (one.owner_epoch, one.revision) for one in message.partitions}
        now = self.clock()
        with self._lock:
            ended = self._received.assigned(owners)
        self._processed(ended, now, "stale")

    def revoked(self, message: pb.Revoked) -> None:
        """Apply a revocation of deliveries."""
        now = self.clock()
        with self._lock:
            ended = self._received.revoked(message.partition, message.from_offset, message.revision)
        self._processed(ended, now, "stale")

    def resolved(self, results: list[SettleResult]) -> None:
        """Apply the results of the oldest ack or nack."""
        now = self.clock()
        with self._lock:
            answer = self._answers.resolved(results)
            ended: list[InFlight] = []
            is_taken = any(one.outcome is SettleOutcome.OK for one in results)
            if answer is not None and answer.verb is AnswerKind.ACK_UNTIL:
                done = [one.last_offset for one in results if one.outcome in SETTLED]
                if done:
                    ended = self._received.settled_until(answer.partition, answer.owner_epoch, max(done))
            if answer is not None and answer.verb in NACKS and not is_taken:
                self._received.nack_rejected(answer.partition, answer.owner_epoch, answer.ranges[0][0])
            self._news.notify_all()
            self._to_send.notify()
        self._processed(ended, now, "")
        if answer is not None and answer.span is not None:
            bad = [one.outcome for one in results if one.outcome in {SettleOutcome.STALE, SettleOutcome.UNKNOWN}]
            self._telemetry.settled(answer.span, now - answer.created_at, bad[0].value if bad else "")

    def disconnected(self, stream: DeliverStreamState, fatal: ForebayError | None) -> None:
        """Apply the end of the stream; with ``fatal`` there is no other stream."""
        now = self.clock()
        with self._lock:
            stream.has_ended = True
            self._stream = None
            self._fatal = fatal
            ended = self._received.disconnected()
            void = self._answers.disconnected()
            self._to_send.notify_all()
            self._news.notify_all()
        self._processed(ended, now, "stale")
        for answer in void:
            if answer.span is not None:
                self._telemetry.settled(answer.span, now - answer.created_at, SettleOutcome.STALE.value)

    async def pause(self, delay_s: float) -> None:
        """Wait before the next stream, or until closed."""
        until = self.clock() + delay_s
        with self._lock:
            while not self._closed and self.clock() < until:
                await self._news.wait_for_notify(until - self.clock())


def _within(left: list[Range], ranges: list[Range]) -> list[Range]:
    return [one for first, last in ranges for one in intersect(left, first, last)]
