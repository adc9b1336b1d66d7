"""Table of the metrics that are read when an exporter asks; ``runtime.metrics`` has those of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.instruments import Lag, Limit, PathLag, SinkMeasure
from forebay.broker.runtime.metrics import GROUP, LANE, PLACE, SINK, Metric, MetricKind

Fold = Callable[[Iterable[float]], float]
Value = Callable[[Lag], float | None]


class Measured:
    """One figure of all lanes of a subscription, as it was measured."""

    def __init__(self, lanes: Sequence[Lag], figure: LaneFigure, at_s: float) -> None:
        """``at_s`` is the time of the measurement."""
        value, fold = figure.value, figure.fold
        points = [(lane.partition, found) for lane in lanes if (found := value(lane)) is not None]
        self.points = points
        """By partition; lanes without a value are left out."""
        self.folded = fold(found for _, found in points) if points else None
        """All of them as one."""
        self._grows_from_s = at_s if figure.grows else None

    def now(self, number: float, at_s: float) -> float:
        """Return a number as it is at a time, until it is measured again."""
        return number if self._grows_from_s is None or not number else number + at_s - self._grows_from_s


@dataclass(frozen=True, slots=True)
class LaneFigure:
    """A figure of each lane."""

    metric: Metric
    value: Value
    fold: Fold
    folds_dead_letters: bool = True
    """Lanes of dead-letter sinks count in the overflow series.

    Their age does not: they wait for a decision, and would hide which of the others are behind.
    """

    grows: bool = False
    """A value above 0 is a time that passes on between two measurements."""


@dataclass(frozen=True, slots=True)
class SinkFigure:
    """A figure of each sink."""

    metric: Metric
    value: Callable[[SinkMeasure], float | None]
    fold: Fold


def _records(records: int, size: int) -> int:
    return records


def _size(records: int, size: int) -> int:
    return size


def _lag_figures(name: str, which: str, of: Callable[[Lag], PathLag], labels: tuple[str, ...]) -> Iterator[LaneFigure]:
    """Yield records, bytes and age of the records that are ``which``."""
    records = Metric(name, GAUGE, "{record}", f"Records {which}", labels)
    size = Metric(f"{name}.size", GAUGE, "By", f"Bytes {which}", labels)
    age = Metric(f"{name}.age", GAUGE, "s", f"Age of the oldest record {which}", labels)
    yield LaneFigure(records, lambda lane: of(lane).records, sum)
    yield LaneFigure(size, lambda lane: of(lane).size, sum)
    yield LaneFigure(age, lambda lane: of(lane).age_us / 1e6, max, folds_dead_letters=False, grows=True)


def _mode_figures(name: str, reader: str, labels: tuple[str, ...]) -> Iterator[LaneFigure]:
    """Yield mode, time in it, and switches of a reader."""
    mode = Metric(name, GAUGE, "1", f"1: {reader} reads from memory, 2: from the store", labels)
    since = Metric(f"{name}.duration", GAUGE, "s", f"Time that {reader} has had its mode", labels)
    switches = Metric(f"{name}.switches", COUNTER, "{switch}", f"Switches of {reader} between memory and store", labels)
    yield LaneFigure(mode, lambda lane: None if lane.realtime is None else 1 if lane.realtime else 2, max)
    yield LaneFigure(since, lambda lane: None if lane.realtime is None else lane.mode_s, max)
    yield LaneFigure(switches, lambda lane: lane.mode_switches, sum)


def _position_figure(name: str, description: str, labels: tuple[str, ...]) -> LaneFigure:
    return LaneFigure(Metric(name, GAUGE, "{record}", description, labels), lambda lane: lane.watermark, max)


def _whole(lane: Lag) -> PathLag:
    return PathLag(lane.pending, lane.pending_bytes, lane.oldest_age_us)


def _watermark(broker: Broker) -> float | None:
    worst = broker.memory.worst
    return worst.limit * broker.bounds.memory_high_watermark if worst is not None else None


def _of_store(value: Callable[[Journal], float | None]) -> Callable[[Broker], float | None]:
    def found(broker: Broker) -> float | None:
        try:
            return value(broker.journal)
        except BrokerError:  # the store is closed or fenced, which other metrics show
            return None

    return found


STATE: Final = "state"
LIMIT: Final = "limit"
"""Attribute with the name of the setting that a limit is from."""
GAUGE, COUNTER = MetricKind.GAUGE, MetricKind.COUNTER
LANES: Final = (
    *_lag_figures("forebay.subscription.lag", "not settled", _whole, LANE),
    *_mode_figures("forebay.reader.mode", "the connected consumer", LANE),
    _position_figure("forebay.subscription.position", "Lowest offset that is not settled", LANE),
    *_lag_figures("forebay.reader.realtime.lag", "not settled that memory holds", lambda lane: lane.in_memory, LANE),
    *_lag_figures(
        "forebay.reader.catchup.lag", "not settled, to be read from the store", lambda lane: lane.in_store, LANE
    ),
)
"""Figures of the lag of subscriptions, as measured by the loop."""
_UNREAD: Final = "that the slowest replay has not read"
REPLAYS: Final = (
    *_lag_figures("forebay.replay.lag", _UNREAD, _whole, PLACE),
    *_lag_figures("forebay.replay.realtime.lag", f"{_UNREAD}, and memory holds", lambda lane: lane.in_memory, PLACE),
    *_lag_figures("forebay.replay.catchup.lag", f"{_UNREAD}, and the store holds", lambda lane: lane.in_store, PLACE),
    *_mode_figures("forebay.replay.mode", "the slowest replay", PLACE),
    _position_figure("forebay.replay.position", "Next offset of the slowest replay", PLACE),
)
"""Figures of the slowest replay of each partition, as measured by the loop.

Partitions without one have no series.
"""
STORED: Final[dict[Metric, Callable[[int, int], int]]] = {
    Metric("forebay.sink.depth", GAUGE, "{record}", "Records stored", PLACE): _records,
    Metric("forebay.sink.size", GAUGE, "By", "Bytes of pages stored", PLACE): _size,
}
"""Figures of each partition, from its records and bytes."""
OF_SINK: Final = (
    SinkFigure(
        Metric("forebay.sink.limit.used", GAUGE, "1", "Share of the tightest limit that is in use: 1 is full", (SINK,)),
        lambda sink: sink.limit_used,
        max,
    ),
    SinkFigure(
        Metric("forebay.sink.staged.size", GAUGE, "By", "Bytes of pages of open epochs", (SINK,)),
        lambda sink: sink.staged_bytes,
        sum,
    ),
    SinkFigure(
        Metric("forebay.sink.dead_letters", GAUGE, "{record}", "Records in the dead-letter sink", (SINK,)),
        lambda sink: sink.dead_letters,
        sum,
    ),
    SinkFigure(
        Metric("forebay.sink.replays", GAUGE, "{replay}", "Open replays", (SINK,)),
        lambda sink: sink.replays,
        sum,
    ),
)
"""Figures of each sink; a sink without a value has no series."""
LIMITS: Final[dict[Metric, Callable[[SinkMeasure], Limit | None]]] = {
    Metric("forebay.sink.depth.limit", GAUGE, "{record}", "Limit of the records of the sink", (SINK, LIMIT)): (
        lambda sink: sink.records_limit
    ),
    Metric("forebay.sink.size.limit", GAUGE, "By", "Limit of the bytes of the sink", (SINK, LIMIT)): (
        lambda sink: sink.size_limit
    ),
}
"""Limits of each sink; an unlimited sink has no series."""
SINK_STATE: Final = Metric(
    "forebay.sink.state",
    GAUGE,
    "1",
    "1 for the state of the sink: `idle`, `flowing`, `no consumer`, `backing off`, `paused`, `full`",
    (SINK, STATE),
)
SUBSCRIPTION_STATE: Final = Metric(
    "forebay.subscription.state",
    GAUGE,
    "1",
    "1 for the state of the subscription: `idle`, `flowing`, `no consumer`, `backing off`, `paused`",
    (SINK, GROUP, STATE),
)
SHARD_OWNER: Final = Metric("forebay.shard.owner", GAUGE, "1", "1 for the owner of a shard, 0 for a follower")
JOURNAL_POSITION: Final = Metric(
    "forebay.journal.position",
    GAUGE,
    "{record}",
    "Next record of the journal of a shard that its owner appends, or that a follower reads",
)
FOLLOWER_LAG: Final = Metric(
    "forebay.follower.lag",
    GAUGE,
    "s",
    "Age of the latest time of which a follower has read the whole journal; not by an owner",
)
REMOTE_SIZE: Final = Metric(
    "forebay.remote.size",
    GAUGE,
    "By",
    "Bytes of pages that a broker which started on an empty disk has still to read from a checkpoint; then 0",
)
OF_BROKER: Final[dict[Metric, Callable[[Broker], float | None]]] = {
    Metric("forebay.streams", GAUGE, "{stream}", "Open publish, deliver, replay and watch streams"): (
        lambda broker: len(broker.streams)
    ),
    Metric("forebay.streams.limit", GAUGE, "{stream}", "Limit of the open streams: `streams_max`"): (
        lambda broker: broker.bounds.streams
    ),
    Metric("forebay.streams.size", GAUGE, "By", "Memory held for streams, which `stream_bytes_max` bounds"): (
        lambda broker: broker.stream_memory.budget.used
    ),
    Metric("forebay.streams.size.limit", GAUGE, "By", "Limit of the memory held for streams: `stream_bytes_max`"): (
        lambda broker: broker.stream_memory.budget.bytes_max
    ),
    Metric(
        "forebay.broker.size",
        GAUGE,
        "By",
        "Bytes of pages of all sinks, pending and staged ones included, which `max_broker_bytes` bounds",
    ): lambda broker: broker.quota.used,
    Metric(
        "forebay.broker.size.limit",
        GAUGE,
        "By",
        "Limit of the bytes of pages of all sinks: `max_broker_bytes`; no series without a limit",
    ): lambda broker: broker.quota.bytes_max or None,
    Metric("forebay.disk.free", GAUGE, "By", "Free bytes of the device of the data directory"): (
        lambda broker: broker.committer.free_bytes
    ),
    Metric("forebay.disk.reserve", GAUGE, "By", "Free bytes below which appends are refused"): (
        lambda broker: broker.bounds.disk_reserve
    ),
    Metric(
        "forebay.memory.used", GAUGE, "By", "Memory of the process or its control group, which is nearer to its limit"
    ): (lambda broker: broker.memory.worst.used if broker.memory.worst is not None else None),
    Metric("forebay.memory.watermark", GAUGE, "By", "Memory above which the broker holds less and refuses appends"): (
        _watermark
    ),
    Metric("forebay.storage.write.stall", GAUGE, "1", "1: the store slows writes, 2: it stops them, 0: neither"): (
        _of_store(lambda store: store.write_stall())
    ),
    Metric(
        "forebay.storage.write.stall.time",
        COUNTER,
        "s",
        "Time for which the store slowed or stopped writes since its start; a stopped write counts when it continues",
    ): _of_store(lambda store: store.write_stall_s()),
    Metric("forebay.tail.size", GAUGE, "By", "Newest pages kept in memory"): lambda broker: broker.read_cache.size,
    Metric("forebay.realtime.failures", COUNTER, "{failure}", "Failures of the memory for the newest pages"): (
        lambda broker: broker.read_cache.failures
    ),
    Metric(
        "forebay.storage.read.failures",
        COUNTER,
        "{failure}",
        "Reads of the store that failed, those that worked when tried again included",
    ): lambda broker: broker.pages.holds.failures,
    Metric(
        "forebay.storage.unreadable.partitions",
        GAUGE,
        "{partition}",
        "Partitions that wait for reads of the store to work again",
    ): lambda broker: len(broker.pages.holds),
    Metric(
        "forebay.background.failures",
        COUNTER,
        "{failure}",
        "Background work of the broker that failed and was restarted",
    ): lambda broker: sum(failed.count for failed in list(broker.supervisor.failures.values())),
    Metric(
        "forebay.backup.age", GAUGE, "s", "Age of the newest complete backup; without one, since the process started"
    ): lambda broker: broker.backups.behind_s(),
    Metric(
        "forebay.backup.overdue",
        GAUGE,
        "s",
        "Time since the newest backup became older than two intervals of the schedule; 0 before, or without a schedule",
    ): lambda broker: broker.backups.overdue_s(),
    Metric("forebay.backup.failures", COUNTER, "{backup}", "Backups that failed"): lambda broker: (
        broker.backups.failures
    ),
    Metric(
        "forebay.journal.size",
        GAUGE,
        "By",
        "Bytes of the journal of a shard: of its newest checkpoint and of the records after it, by its owner",
    ): lambda broker: broker.checkpoints.journal_bytes if broker.checkpoints is not None else None,
    Metric(
        "forebay.journal.away",
        GAUGE,
        "s",
        "Time since the journal of a shard confirms nothing to its owner; 0 while it does, also out of a reserve",
    ): lambda broker: (
        None if broker.checkpoints is None else out.seconds if (out := broker.committer.outage()) is not None else 0
    ),
    FOLLOWER_LAG: lambda broker: None,
    SHARD_OWNER: lambda broker: 1 if broker.checkpoints is not None else None,
    JOURNAL_POSITION: lambda broker: broker.checkpoints.journal_position if broker.checkpoints is not None else None,
    Metric(
        "forebay.journal.resends",
        COUNTER,
        "{request}",
        "Requests of an owner to its journal that failed, and were or will be repeated",
    ): lambda broker: broker.checkpoints.journal_resends if broker.checkpoints is not None else None,
    Metric(
        "forebay.journal.epoch",
        GAUGE,
        "{epoch}",
        "Epoch of the owner of a shard, by the owner: 1 more for each takeover",
    ): lambda broker: broker.checkpoints.owner_epoch if broker.checkpoints is not None else None,
    REMOTE_SIZE: lambda broker: broker.checkpoints.remote_bytes if broker.checkpoints is not None else None,
    Metric("forebay.checkpoint.failures", COUNTER, "{checkpoint}", "Checkpoints of the owner of a shard that failed"): (
        lambda broker: broker.checkpoints.failures if broker.checkpoints is not None else None
    ),
    Metric("forebay.quarantine.pages", GAUGE, "{page}", "Damaged pages in quarantine"): (
        lambda broker: broker.quarantine.pages
    ),
    Metric("forebay.quarantine.evicted.pages", COUNTER, "{page}", "Quarantined pages given up for newer ones"): (
        lambda broker: broker.quarantine.evicted
    ),
}
"""Figures of the broker as a whole."""
CONNECTIONS: Final = Metric(
    "forebay.connections",
    GAUGE,
    "{connection}",
    "Open connections: `busy` with a call, `idle` after one, `stranger` before the first; as of the last second",
    ("use",),
)
CONNECTIONS_LIMIT: Final = Metric(
    "forebay.connections.limit",
    GAUGE,
    "{connection}",
    "Limit of the open connections: `connections_max`, or less where the limit of open files allows fewer",
)
INFO: Final = Metric(
    "forebay.info",
    GAUGE,
    "1",
    "1 for the state of the broker and its version: `serving`, `draining`, `fenced`",
    ("version", STATE),
)
GAUGES: Final = (
    *STORED,
    *(each.metric for each in LANES),
    *(each.metric for each in REPLAYS),
    *(each.metric for each in OF_SINK),
    *LIMITS,
    *(SINK_STATE, SUBSCRIPTION_STATE, CONNECTIONS, CONNECTIONS_LIMIT, INFO),
    *OF_BROKER,
)
"""All metrics that are read when an exporter asks."""
