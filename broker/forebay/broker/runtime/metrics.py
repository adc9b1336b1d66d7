"""Table of the counters and histograms that events feed; ``gauges`` has the metrics that are read.

Names follow the OpenTelemetry conventions for messaging where there are any, and `forebay.…` otherwise. Labels are
names, numbers of partitions and fixed words; never a payload, a key or free text of a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SINK: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
METHOD: Final = "rpc.method"
STATUS: Final = "rpc.response.status_code"
PLACE: Final = (SINK, PARTITION)
LANE: Final = (SINK, PARTITION, GROUP)
SYNC_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Bounds of the buckets of what the disk answers."""
RESIDENCE_S: Final = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
"""Bounds of the buckets of how long records stay: from a moment to an outage of days."""


class MetricKind(StrEnum):
    """Kind of a metric."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric."""

    name: str
    kind: MetricKind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    """Attributes of its series, beside the system's."""

    buckets: tuple[float, ...] = ()
    """Bounds of the buckets of a histogram."""


COUNTER, HISTOGRAM = MetricKind.COUNTER, MetricKind.HISTOGRAM
INGESTED_RECORDS: Final = Metric("forebay.ingest.records", COUNTER, "{record}", "Records made durable", PLACE)
INGESTED_BYTES: Final = Metric("forebay.ingest.bytes", COUNTER, "By", "Bytes of pages made durable", PLACE)
INGEST: Final = Metric(
    "forebay.ingest.duration", HISTOGRAM, "s", "A page from accepted to durable", (SINK,), buckets=SYNC_S
)
SYNC: Final = Metric(
    "forebay.storage.sync.duration", HISTOGRAM, "s", "One group commit, write and sync", buckets=SYNC_S
)
DELIVERED: Final = Metric(
    "forebay.delivered.records", COUNTER, "{record}", "Records put in flight, or leased in a set", LANE
)
REDELIVERED: Final = Metric(
    "forebay.redelivered.records", COUNTER, "{record}", "Delivered records that were delivered before", LANE
)
FAILURES: Final = Metric(
    "forebay.delivery.failures",
    COUNTER,
    "{failure}",
    "Deliveries to be repeated: `nack`, `deadline`, `disconnect`",
    (SINK, GROUP, "reason"),
)
SETTLED: Final = Metric(
    "forebay.settled.records",
    COUNTER,
    "{record}",
    "Records settled: `acked`, `dead_lettered`, `dropped`, `skipped`",
    (*LANE, "outcome"),
)
RESIDENCE: Final = Metric(
    "forebay.residence.duration", HISTOGRAM, "s", "A page from accepted to its last ack", (SINK, GROUP), RESIDENCE_S
)
DROPPED: Final = Metric(
    "forebay.dropped.records",
    COUNTER,
    "{record}",
    "Records dropped: `OVERFLOW`, `CORRUPT`, `EXPIRED`, `PURGED`, `CLEANED_AT_STOP`, `REJECTED_BY_TARGET`",
    (*PLACE, "reason"),
)
APPEND_REFUSED: Final = Metric(
    "forebay.ingest.refused",
    COUNTER,
    "{append}",
    "Appends that were not admitted: `SINK_FULL`, `DISK_FULL`, `MEMORY_OVERLOADED`, and others",
    (SINK, "reason"),
)
CALL: Final = Metric(
    "rpc.server.call.duration",
    HISTOGRAM,
    "s",
    "A call with one request and one response, from the complete request to its result; streams are not measured",
    (METHOD, STATUS),
    buckets=SYNC_S,
)
CLOSED: Final = Metric(
    "forebay.connections.closed",
    COUNTER,
    "{connection}",
    "Connections closed for a bound: `per_peer`, `total`, `unread`; or since the peer took not even the end of a call: "
    "`untaken`",
    ("reason",),
)
SHED: Final = Metric("forebay.streams.shed", COUNTER, "{stream}", "Streams ended with `READER_TOO_SLOW`")
REFUSED: Final = Metric(
    "forebay.calls.refused",
    COUNTER,
    "{call}",
    "Calls refused by access control: `TOKEN_REFUSED`, `PERMISSION_DENIED`, `RATE_LIMITED`. The caller is `token`, "
    "`certificate`, or `unknown` without a valid one; the audit log names it",
    ("caller", "reason"),
)
EVENTS: Final = (
    *(INGESTED_RECORDS, INGESTED_BYTES, INGEST, SYNC, DELIVERED, REDELIVERED, FAILURES, SETTLED, RESIDENCE, DROPPED),
    *(APPEND_REFUSED, CALL, CLOSED, SHED, REFUSED),
)
