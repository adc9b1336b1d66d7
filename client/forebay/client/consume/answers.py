"""Messages from a subscriber to the broker: acks, nacks and deadline extensions, with their results.

Consecutive acks without a waiting caller are merged into one message. The broker answers acks and nacks in order, so
results belong to the oldest pending answer. Not thread-safe: the subscriber owns it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from opentelemetry.trace import Span

from forebay.client.values.convert import duration
from forebay.client.values.ranges import Range, appended, intersect
from forebay.client.values.records import SettleOutcome, SettleResult
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

RANGES_MAX: Final = 10_000
REASON_CHARACTERS_MAX: Final = 1_024


class AnswerKind(StrEnum):
    """Kind of an answer."""

    ACK = "ack"
    ACK_UNTIL = "ack_until"
    NACK = "nack"
    DEAD_LETTER = "dead_letter"
    DROP = "drop"


@dataclass(slots=True, eq=False)
class Answer:
    """One ack or nack in transit."""

    verb: AnswerKind
    partition: int
    owner_epoch: int
    revision: int
    ranges: list[Range]
    delay_s: float | None = None
    reason: str = ""
    is_awaited: bool = False
    """A caller waits for its results: it is not merged with others."""

    is_selective: bool = False
    """A nack that rejects only the records that it names."""

    results: list[SettleResult] | None = None
    """Results, once they are known."""

    created_at: float = 0.0
    span: Span | None = None

    def message(self) -> pb.DeliverRequest:
        """Return the wire form."""
        ranges = [pb_range(one) for one in self.ranges]
        if self.verb in {AnswerKind.ACK, AnswerKind.ACK_UNTIL}:
            ack = pb.AckRanges(
                partition=self.partition,
                owner_epoch=self.owner_epoch,
                revision=self.revision,
                ranges=ranges,
                until=self.verb is AnswerKind.ACK_UNTIL,
            )
            return pb.DeliverRequest(ack=ack)
        nack = pb.NackRanges(
            partition=self.partition, owner_epoch=self.owner_epoch, revision=self.revision, ranges=ranges
        )
        reason = self.reason[:REASON_CHARACTERS_MAX]
        if self.verb is AnswerKind.DEAD_LETTER:
            nack.dead_letter.reason = reason
        elif self.verb is AnswerKind.DROP:
            nack.drop.reason = reason
        else:
            nack.retry.reason = reason
            if self.delay_s is not None:
                nack.retry.delay.CopyFrom(duration(self.delay_s))
        return pb.DeliverRequest(nack=nack)

    def resolve(self, outcome: SettleOutcome) -> None:
        """End the answer locally with ``outcome``."""
        self.results = [SettleResult(self.partition, first, last, outcome) for first, last in self.ranges]


def pb_range(one: Range) -> record_pb2.OffsetRange:
    """Return the wire form of a range."""
    return record_pb2.OffsetRange(first_offset=one[0], last_offset=one[1])


@dataclass(slots=True)
class Answers:
    """Answers to be sent, and answers that await their results."""

    waiting: deque[Answer | pb.DeliverRequest] = field(default_factory=deque)
    """Messages in the order of sending; plain messages get no results."""

    sent: deque[Answer] = field(default_factory=deque)

    def is_idle(self) -> bool:
        """Return True if no answer awaits sending or results."""
        return not self.waiting and not self.sent

    def put(self, answer: Answer) -> bool:
        """Add an answer; return False if it was merged into the previous one.

        Acks are merged. In RELAXED order nacks of one delivery are merged too, because each rejects only the records
        that it names.
        """
        last = self.waiting[-1] if self.waiting else None
        if (
            isinstance(last, Answer)
            and (answer.verb is AnswerKind.ACK or (answer.verb is AnswerKind.NACK and answer.is_selective))
            and last.verb is answer.verb
            and not answer.is_awaited
            and not last.is_awaited
            and (answer.delay_s, answer.reason, answer.is_selective) == (last.delay_s, last.reason, last.is_selective)
            and (answer.partition, answer.owner_epoch, answer.revision)
            == (last.partition, last.owner_epoch, last.revision)
            and len(last.ranges) + len(answer.ranges) <= RANGES_MAX
        ):
            last.ranges = appended(last.ranges, answer.ranges)
            return False
        self.waiting.append(answer)
        return True

    def unanswered(self, verb: AnswerKind, owner: tuple[int, int, int], ranges: list[Range]) -> list[Answer]:
        """Return the answers about ``ranges`` without results yet that a caller waits, or waited, for.

        ``owner`` is partition, owner epoch and revision.
        """
        return [
            one
            for one in (*self.sent, *self.waiting)
            if isinstance(one, Answer)
            and one.is_awaited
            and one.verb is verb
            and (one.partition, one.owner_epoch, one.revision) == owner
            and any(intersect(one.ranges, first, last) for first, last in ranges)
        ]

    def put_message(self, message: pb.DeliverRequest) -> None:
        """Add a message that gets no results."""
        self.waiting.append(message)

    def take(self, *, gather: bool = False) -> pb.DeliverRequest | None:
        """Return the next message to send.

        With ``gather``, an ack without a waiting caller is held while an earlier one awaits its results, so that later
        acks are merged into it.
        """
        if not self.waiting:
            return None
        head = self.waiting[0]
        lone_ack = (
            len(self.waiting) == 1 and isinstance(head, Answer) and head.verb is AnswerKind.ACK and not head.is_awaited
        )
        if gather and lone_ack and self.sent:
            return None
        self.waiting.popleft()
        if isinstance(head, Answer):
            self.sent.append(head)
            return head.message()
        return head

    def resolved(self, results: list[SettleResult]) -> Answer | None:
        """Assign results to the oldest answer and return it; ``None`` if no answer awaits results."""
        if not self.sent:
            return None
        answer = self.sent.popleft()
        answer.results = results
        return answer

    def disconnected(self) -> list[Answer]:
        """Void all answers after the end of the stream, and return them."""
        void = [*self.sent, *(one for one in self.waiting if isinstance(one, Answer))]
        self.sent.clear()
        self.waiting.clear()
        for answer in void:
            answer.resolve(SettleOutcome.STALE)
        return void
