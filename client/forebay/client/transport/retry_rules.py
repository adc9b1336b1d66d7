"""Retry rules: for each single call, whether the client makes it again when its answer was lost.

A call whose answer was lost may have been done. It is made again only where that does no harm: it reads, it finds what
the first try has done, or its request names what keeps a second one from doing more (the incarnation of the sink,
offsets, times). What has no such name is made again only when the broker says that it has done nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from forebay.client.errors import BrokerDraining, BrokerUnavailable, ForebayError


class Repeat(Enum):
    """Effect of a second call with the same request."""

    READS = "changes nothing"
    FINDS = "finds what the first one has done"
    NAMES = "names what keeps a second one from doing more"
    NEVER = "would do it twice: made again only when the broker says that it has done nothing"


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of one rpc."""

    repeat: Repeat
    why: str = ""
    """What makes it so, where the kind does not say it all."""

    any_shortage: bool = False
    """Tried again for whatever may pass, a full disk too, and not only while the broker is away."""

    def may_retry(self, error: ForebayError) -> bool:
        """Return whether the same request may be sent again after ``error``."""
        if self.repeat is Repeat.NEVER:
            return isinstance(error, BrokerDraining)
        return error.retryable if self.any_shortage else isinstance(error, BrokerUnavailable)


_READS: Final = Rule(Repeat.READS)

RULES: Final[Mapping[str, Rule]] = {
    "GetBrokerInfo": _READS,
    # -- the data path
    "PublishBatch": Rule(Repeat.NEVER, "it has no writer, by which a page that came before is known"),
    "Pull": Rule(Repeat.NEVER, "the records of the lost answer stay in flight, and others would follow them"),
    "Ack": Rule(Repeat.FINDS, "what is settled stays settled, and an owner epoch is never given twice"),
    "Nack": Rule(Repeat.NEVER, "in RELAXED order a record that came back meanwhile would have failed once more"),
    "ExtendDeadline": Rule(Repeat.FINDS, "the deadline moves to the same distance from now"),
    "Peek": _READS,
    "Replay": Rule(Repeat.READS, "a stream, of which only the first message is asked for here"),
    # -- sinks
    "CreateSink": Rule(Repeat.FINDS, "a sink with the same settings is answered"),
    "GetSink": _READS,
    "ListSinks": _READS,
    "UpdateSink": Rule(Repeat.NAMES, "incarnation"),
    "DeleteSink": Rule(Repeat.NAMES, "incarnation: a sink that was made since has another one"),
    "PauseSink": Rule(Repeat.NAMES, "incarnation"),
    "ResumeSink": Rule(Repeat.NAMES, "incarnation"),
    "PurgeSink": Rule(Repeat.NAMES, "incarnation and end offsets: what was published since lies behind them"),
    "ListGaps": _READS,
    "ExplainRecord": _READS,
    "GetSinkStats": _READS,
    # -- subscriptions
    "CreateSubscription": Rule(Repeat.FINDS, "one with the same start is answered"),
    "ListSubscriptions": _READS,
    "DeleteSubscription": Rule(Repeat.NAMES, "incarnation, and when it was made: one that was made since is another"),
    "SeekSubscription": Rule(Repeat.NEVER, "each closes an account, and `latest` is another place by then"),
    "SettleSubscription": Rule(Repeat.FINDS, "what is settled stays settled"),
    # -- what was set aside
    "LeaseResends": Rule(Repeat.FINDS, "a holder has one set, which is answered"),
    "SettleResends": Rule(Repeat.FINDS, "what is settled stays settled"),
    "ReleaseResends": Rule(Repeat.FINDS, "a holder that has given back has nothing; each set has a holder of its own"),
    # -- dead letters
    "ListDeadLetters": _READS,
    "RedriveDeadLetters": Rule(Repeat.NAMES, "incarnation and end offsets: what came back since lies behind them"),
    "PurgeDeadLetters": Rule(Repeat.NAMES, "incarnation and end offsets: what was rejected since lies behind them"),
    # -- epochs
    "TakeTicket": Rule(Repeat.FINDS, "a ticket that nobody uses does no harm"),
    "CommitEpoch": Rule(Repeat.FINDS, "the same commit is answered as done", any_shortage=True),
    "AbortEpoch": Rule(Repeat.FINDS, "tokens are random, and one that was thrown away is gone"),
    "GetEpoch": _READS,
    "ListEpochs": _READS,
    # -- schemas
    "RegisterSchema": Rule(Repeat.FINDS, "the latest version, registered again, is answered"),
    "GetSchema": _READS,
    "ListSchemas": _READS,
}
"""By rpc: each unary one of the wire contract, and streams that are asked for one message only."""
