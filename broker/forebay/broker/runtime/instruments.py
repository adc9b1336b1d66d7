"""Events of the runtime as metrics. The instruments of the server export them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.runtime import metrics
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.metrics import Metric


@dataclass(frozen=True, slots=True)
class PathLag:
    """Lag of one path by which a reader gets its records: memory, or the store."""

    records: int = 0
    size: int = 0
    age_us: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one subscription on one partition; see ``statistics.LaneState``."""

    partition: int
    pending: int
    pending_bytes: int
    oldest_age_us: int
    realtime: bool | None
    watermark: int = 0
    mode_s: float = 0.0
    mode_switches: int = 0
    in_memory: PathLag = PathLag()
    in_store: PathLag = PathLag()


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a sink."""

    setting: str
    """Name of the setting that it is from."""

    value: int


@dataclass(frozen=True, slots=True)
class SinkMeasure:
    """Measurement of one sink, taken with the lag of its subscriptions."""

    records: int
    size: int
    state: str
    """State of its flow as a word, see ``forebay.state.flow``."""

    limit_used: float
    """Share of its tightest limit that is in use."""

    staged_bytes: int
    """Bytes of pages of open epochs."""

    dead_letters: int | None
    """Records in its dead-letter sink; None without one."""

    replays: int
    """Open replays."""

    records_limit: Limit | None = None
    """Limit of its records; None if they are unlimited."""

    size_limit: Limit | None = None
    """Limit of its bytes, likewise."""


class Instruments:
    """Events of the runtime. Called on the loop, once per event; calls must be quick and must not fail."""

    wants_lag: bool = False
    """True if ``measured`` is to be called: with many sinks it is costly, so only while it is read."""

    def add(self, metric: Metric, amount: float, labels: tuple[str, ...] = (), *, traceparent: str = "") -> None:
        """Add to a counter, or to the values of a histogram; ``labels`` as the metric names them.

        ``traceparent``: trace context of what was measured; the exemplar of the value, if its span is sampled.
        """

    def ingested(
        self,
        sink: str,
        partition: int,
        entries: Sequence[Entry],
        age_now_us: int,
        *,
        beside: tuple[int, int] = (0, 0),
    ) -> None:
        """Count pages that became durable; ``age_now_us`` is the time now on the clock of their age stamps.

        ``beside``: records and bytes of pages that became durable with them, and that have no entry here.
        """
        place = (sink, str(partition))
        self.add(metrics.INGESTED_RECORDS, sum(entry.count for entry in entries) + beside[0], place)
        self.add(metrics.INGESTED_BYTES, sum(entry.size for entry in entries) + beside[1], place)
        for entry in entries:
            elapsed_s = max(0, age_now_us - entry.age_us) / 1e6
            self.add(metrics.INGEST, elapsed_s, (sink,), traceparent=entry.traceparent)

    def synced(self, synced: Synced) -> None:
        """Record a committed batch."""
        self.add(metrics.SYNC, synced.seconds)

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        """Count pages put in flight; ``redelivered`` of their records were sent before."""
        lane = (sink, str(event.partition), subscription)
        self.add(metrics.DELIVERED, sum(found.size for found in event.ranges), lane)
        if redelivered:
            self.add(metrics.REDELIVERED, redelivered, lane)

    def leased(self, sink: str, subscription: str, partition: int, records: int) -> None:
        """Count records that were leased from the retry queue as a set: a redelivery."""
        lane = (sink, str(partition), subscription)
        self.add(metrics.DELIVERED, records, lane)
        self.add(metrics.REDELIVERED, records, lane)

    def settled(self, sink: str, subscription: str, partition: int, outcome: str, records: int) -> None:
        """Count settled records: ``acked``, ``dropped`` or ``skipped``."""
        self.add(metrics.SETTLED, records, (sink, str(partition), subscription, outcome))

    def resided(self, sink: str, subscription: str, pages: Sequence[tuple[float, str]]) -> None:
        """Record the times from acceptance to the last answer of pages.

        ``pages``: seconds and the publisher's trace context of each.
        """
        lanes = (sink, subscription)
        for elapsed_s, traceparent in pages:
            self.add(metrics.RESIDENCE, max(0.0, elapsed_s), lanes, traceparent=traceparent)

    def failed(self, sink: str, subscription: str, why: str) -> None:
        """Count a failed delivery that will be retried: ``nack``, ``deadline`` or ``disconnect``."""
        self.add(metrics.FAILURES, 1, (sink, subscription, why))

    def append_refused(self, sink: str, reason: str) -> None:
        """Count an append that found no room."""
        self.add(metrics.APPEND_REFUSED, 1, (sink, reason))

    def answered(self, method: str, status: str, seconds: float, traceparent: str = "") -> None:
        """Record the duration of a call with one request and one response.

        ``traceparent``: trace context that the caller sent.
        """
        self.add(metrics.CALL, seconds, (method, status), traceparent=traceparent)

    def sink_measured(self, sink: str, measure: SinkMeasure) -> None:
        """Record the measurement of a sink, before those of its subscriptions."""

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag], state: str) -> None:
        """Record the lag of a subscription and the state of its flow, once a second."""

    def replays_measured(self, sink: str, lanes: Sequence[Lag]) -> None:
        """Record the lag of the replay that is furthest behind, of each partition with open replays."""

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        """Count dropped records."""
        self.add(metrics.DROPPED, records, (sink, str(partition), reason.name))

    def connections_closed(self, reason: str, count: int) -> None:
        """Count connections closed for a bound: ``per_peer`` or ``total``."""
        self.add(metrics.CLOSED, count, (reason,))

    def call_refused(self, caller: str, reason: str) -> None:
        """Count a call refused by access control; ``caller`` is its kind of credential, never its name."""
        self.add(metrics.REFUSED, 1, (caller, reason))

    def stream_shed(self, held: int) -> None:
        """Count a stream that was ended with ``held`` bytes: its peer read nothing while others waited."""
        self.add(metrics.SHED, 1)

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Remove a deleted sink, or one of its subscriptions."""
