"""Retry rules: the calls that the client repeats when an answer was lost.

A call whose answer was lost may have been executed. It is repeated only if that is harmless: it reads, it finds the
effect of the first attempt, or its request contains a guard against a second effect (the incarnation of the sink,
offsets, times). A call without such a guard is repeated only if the broker states that it did not execute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from forebay.client.errors import BrokerDraining, BrokerUnavailable, ForebayError, NotOwner


class Repeat(Enum):
    """Effect of a second call with the same request."""

    READS = "changes nothing"
    FINDS = "finds the effect of the first call"
    NAMES = "contains a guard against a second effect"
    NEVER = "would apply twice: repeated only if the broker states that it did not execute the call"


@dataclass(frozen=True, slots=True)
class Rule:
    """Retry rule of one rpc."""

    repeat: Repeat
    why: str = ""
    """Reason for the rule, where the kind does not explain it."""

    any_shortage: bool = False
    """Retried after every retryable error, for example a full disk, not only while unreachable."""

    def may_retry(self, error: ForebayError) -> bool:
        """Return True if the same request may be sent again after ``error``."""
        if self.repeat is Repeat.NEVER:
            return isinstance(error, BrokerDraining)
        return error.retryable if self.any_shortage else isinstance(error, BrokerUnavailable)


def is_unexecuted(error: ForebayError) -> bool:
    """Return True if the broker states with ``error`` that it did nothing of the call."""
    return isinstance(error, BrokerDraining | NotOwner)


_READS: Final = Rule(Repeat.READS)

RULES: Final[Mapping[str, Rule]] = {
    "GetBrokerInfo": _READS,
    "ListConnections": _READS,
    "ListShards": _READS,
    "GetBackupStatus": _READS,
    "HandOver": Rule(Repeat.NEVER, "the next owner would hand over too"),
    "SetRealtime": Rule(Repeat.NAMES, "incarnation; the whole broker stays switched as it is"),
    # -- data path
    "PublishBatch": Rule(Repeat.NEVER, "it has no writer id and sequence to detect a duplicate"),
    "Pull": Rule(Repeat.NEVER, "the records of the lost answer stay in flight, and a retry would take others"),
    "Ack": Rule(Repeat.FINDS, "what is settled stays settled, and an owner epoch is never reused"),
    "Nack": Rule(Repeat.NEVER, "in RELAXED order a record that was redelivered since would get another failed attempt"),
    "ExtendDeadline": Rule(Repeat.FINDS, "the deadline moves to the same distance from now"),
    "Peek": _READS,
    "Replay": Rule(Repeat.READS, "a stream of which only the first message is read here"),
    # -- sinks
    "CreateSink": Rule(Repeat.FINDS, "an existing sink with the same settings is returned"),
    "GetSink": _READS,
    "ListSinks": _READS,
    "UpdateSink": Rule(Repeat.NAMES, "incarnation"),
    "DeleteSink": Rule(Repeat.NAMES, "incarnation: a sink created since has another one"),
    "PauseSink": Rule(Repeat.NAMES, "incarnation"),
    "ResumeSink": Rule(Repeat.NAMES, "incarnation"),
    "PurgeSink": Rule(Repeat.NAMES, "incarnation and end offsets: records published since are above them"),
    "ListGaps": _READS,
    "ExplainRecord": _READS,
    "GetSinkStats": _READS,
    # -- subscriptions
    "CreateSubscription": Rule(Repeat.FINDS, "an existing subscription with the same start is returned"),
    "ListSubscriptions": _READS,
    "DeleteSubscription": Rule(Repeat.NAMES, "incarnation and creation: a subscription created since has another one"),
    "SeekSubscription": Rule(Repeat.NEVER, "each call closes an account, and `latest` has moved by then"),
    "SettleSubscription": Rule(Repeat.FINDS, "what is settled stays settled"),
    # -- saved positions
    "ReadPosition": _READS,
    "WritePosition": Rule(Repeat.NEVER, "the second call finds the version of the first, which is a conflict"),
    "DeletePosition": Rule(Repeat.FINDS, "what is deleted stays deleted, until its consumer writes again"),
    "ListPositions": _READS,
    # -- retry queue
    "LeaseResends": Rule(Repeat.FINDS, "a holder has one set, which is returned"),
    "SettleResends": Rule(Repeat.FINDS, "what is settled stays settled"),
    "ReleaseResends": Rule(Repeat.FINDS, "after a release the holder has no set; each set has its own holder"),
    # -- dead letters
    "ListDeadLetters": _READS,
    "RedriveDeadLetters": Rule(Repeat.NAMES, "incarnation and end offsets: later dead letters are above them"),
    "PurgeDeadLetters": Rule(Repeat.NAMES, "incarnation and end offsets: later dead letters are above them"),
    # -- epochs
    "TakeTicket": Rule(Repeat.FINDS, "an unused ticket is harmless"),
    "CommitEpoch": Rule(Repeat.FINDS, "the same commit is reported as already committed", any_shortage=True),
    "AbortEpoch": Rule(Repeat.FINDS, "tokens are random, and a discarded one stays discarded"),
    "GetEpoch": _READS,
    "ListEpochs": _READS,
    # -- schemas
    "RegisterSchema": Rule(Repeat.FINDS, "registering the latest version again returns it"),
    "GetSchema": _READS,
    "ListSchemas": _READS,
}
"""Rules by rpc: all unary calls of the wire contract, and streams of which one message is read."""
