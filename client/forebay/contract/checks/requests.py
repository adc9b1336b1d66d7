"""Wrong requests: each is rejected with status, reason, domain and facts of the table of errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial
from forebay.errors.reasons import Reason

BEYOND: Final = (1 << 64) - 1
"""Largest number of the wire, above every offset."""

ABSENT: Final = "contract-absent"
"""Incarnation, subscription or setting that does not exist."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request that has to be rejected."""

    rpc: str
    reason: Reason
    what: str
    """The fault, in words."""

    request: Callable[[str], Mapping[str, Any]]
    """Fields of the request, by the name of a sink with three records in the first of two partitions."""


_RANGE: Final = {"first_offset": 2, "last_offset": 1}

WRONG: Final = (
    Wrong("SinkService.CreateSink", Reason.INVALID_SINK_NAME, "a name with capitals", lambda s: {"name": f"{s}-X"}),
    Wrong("SinkService.CreateSink", Reason.INVALID_SINK_NAME, "a reserved suffix", lambda s: {"name": f"{s}.dlq"}),
    Wrong(
        "SinkService.CreateSink",
        Reason.INVALID_SETTING,
        "5,000 partitions",
        lambda s: {"name": f"{s}-x", "settings": {"partitions": 5_000}},
    ),
    Wrong(
        "SinkService.CreateSink",
        Reason.SINK_EXISTS,
        "a name with other settings",
        lambda s: {"name": s, "settings": {"partitions": 3}},
    ),
    Wrong("SinkService.GetSink", Reason.SINK_NOT_FOUND, "an unknown sink", lambda s: {"name": f"{s}-x"}),
    Wrong("SinkService.ListSinks", Reason.INVALID_PAGE_TOKEN, "an unknown token", lambda s: {"page_token": "größe"}),
    Wrong(
        "SinkService.UpdateSink",
        Reason.INVALID_SETTING,
        "an unknown setting",
        lambda s: {"name": s, "update_mask": {"paths": [ABSENT]}},
    ),
    Wrong(
        "SinkService.UpdateSink",
        Reason.INVALID_SETTING,
        "fewer partitions",
        lambda s: {"name": s, "settings": {"partitions": 1}, "update_mask": {"paths": ["partitions"]}},
    ),
    Wrong("SinkService.DeleteSink", Reason.SINK_NOT_EMPTY, "unsettled records", lambda s: {"name": s}),
    Wrong(
        "SinkService.PurgeSink",
        Reason.OFFSET_AHEAD,
        "an offset beyond the end",
        lambda s: {"name": s, "partition": 0, "until_offset": 4},
    ),
    Wrong("SinkService.ListGaps", Reason.INVALID_PARTITION, "an unknown partition", lambda s: _at(s, 9)),
    Wrong("SinkService.ExplainRecord", Reason.INVALID_PARTITION, "an unknown partition", lambda s: _at(s, 9)),
    Wrong(
        "SinkService.WatchSinkStats",
        Reason.INVALID_INTERVAL,
        "an interval of 1 ms",
        lambda s: {"name": s, "interval": {"nanos": 1_000_000}},
    ),
    Wrong(
        "SinkService.CreateSubscription",
        Reason.INVALID_SUBSCRIPTION_NAME,
        "a name with a space",
        lambda s: {"sink": s, "name": "a b"},
    ),
    Wrong(
        "SinkService.CreateSubscription",
        Reason.OFFSET_AHEAD,
        "a start beyond the end",
        lambda s: {"sink": s, "name": "later", "start": {"offset": 4}},
    ),
    Wrong(
        "SinkService.DeleteSubscription",
        Reason.DEFAULT_SUBSCRIPTION,
        "the default subscription",
        lambda s: {"sink": s, "name": "default"},
    ),
    Wrong(
        "SinkService.DeleteSubscription",
        Reason.SUBSCRIPTION_NOT_FOUND,
        "an unknown subscription",
        lambda s: {"sink": s, "name": ABSENT},
    ),
    Wrong("SinkService.SeekSubscription", Reason.INVALID_POSITION, "no position", lambda s: {"sink": s}),
    Wrong("SinkService.SettleSubscription", Reason.INVALID_POSITION, "no offset", lambda s: {"sink": s}),
    Wrong(
        "BufferService.PublishBatch",
        Reason.SINK_NOT_FOUND,
        "an unknown sink",
        lambda s: {"sink": f"{s}-x", "records": [{"value": b"x"}]},
    ),
    Wrong("BufferService.PublishBatch", Reason.INVALID_PAGE, "no record", lambda s: {"sink": s}),
    Wrong(
        "BufferService.PublishBatch",
        Reason.INVALID_PARTITION,
        "an unknown partition",
        lambda s: {**_at(s, 9), "records": [{"value": b"x"}]},
    ),
    Wrong(
        "BufferService.PublishBatch",
        Reason.SINK_REPLACED,
        "another incarnation",
        lambda s: {"sink": s, "records": [{"value": b"x"}], "incarnation": ABSENT},
    ),
    Wrong("BufferService.Pull", Reason.INVALID_PULL, "10,001 records", lambda s: {"sink": s, "max_records": 10_001}),
    Wrong(
        "BufferService.Pull",
        Reason.SUBSCRIPTION_NOT_FOUND,
        "an unknown subscription",
        lambda s: {"sink": s, "subscription": ABSENT},
    ),
    Wrong(
        "BufferService.Ack",
        Reason.INVALID_RANGE,
        "a reversed range",
        lambda s: {"sink": s, "acks": [{"ranges": [_RANGE]}]},
    ),
    Wrong(
        "BufferService.Nack",
        Reason.INVALID_NACK,
        "a delay of 25 h",
        lambda s: {
            "sink": s,
            "nacks": [{"ranges": [{"first_offset": 0, "last_offset": 0}], "retry": {"delay": {"seconds": 25 * 3_600}}}],
        },
    ),
    Wrong("BufferService.Replay", Reason.INVALID_PARTITION, "an unknown partition", lambda s: _at(s, 9)),
    Wrong(
        "BufferService.Replay",
        Reason.OFFSET_AHEAD,
        "a start beyond the end",
        lambda s: {**_at(s, 0), "start_offset": 4},
    ),
    Wrong("BufferService.Peek", Reason.OFFSET_AHEAD, "an offset beyond the end", lambda s: {**_at(s, 0), "offset": 4}),
    Wrong(
        "BufferService.Peek",
        Reason.NUMBER_OUT_OF_RANGE,
        "an offset of 2^64-1",
        lambda s: {**_at(s, 0), "offset": BEYOND},
    ),
    Wrong(
        "EpochService.CommitEpoch",
        Reason.INVALID_EPOCH,
        "a producer without a name",
        lambda s: {"commits": [{"sink": s}]},
    ),
    Wrong(
        "EpochService.GetEpoch",
        Reason.EPOCH_NOT_FOUND,
        "an unknown producer",
        lambda s: {"sink": s, "producer": ABSENT},
    ),
    Wrong(
        "SinkService.ListGaps",
        Reason.INVALID_PAGE_TOKEN,
        "an unknown token",
        lambda s: {"sink": s, "page_token": "?"},
    ),
    Wrong(
        "ResendService.LeaseResends",
        Reason.ORDERING_STRICT,
        "a sink in strict order",
        lambda s: {"sink": s, "holder": "contract", "duration": {"seconds": 10}},
    ),
    Wrong(
        "SchemaService.GetSchema", Reason.SCHEMA_NOT_FOUND, "an unknown version", lambda s: {"sink": s, "version": 1}
    ),
)


def _at(sink: str, partition: int) -> dict[str, Any]:
    return {"sink": sink, "partition": partition}


def _rejected(wrong: Wrong, trial: Trial) -> None:
    sink = trial.sinks.create(partitions=2)
    trial.sinks.own(f"{sink}-x")  # where a broker accepts what it should reject
    trial.publish(sink, b"a", b"b", b"c")
    trial.wire.refused(wrong.rpc, wrong.reason, **wrong.request(sink))


CHECKS: Final = tuple(
    Check("requests", f"{wrong.rpc} rejects {wrong.what}: {wrong.reason.name}", partial(_rejected, wrong))
    for wrong in WRONG
)
