"""Gauges of the broker: depth, size, lag, readers and memory, read by exporters on demand.

Exporters read on threads of their own. They read counters that the loop changes, at worst as of a moment ago. The lag
is the last measurement of the loop: within the last second, less often in a broker of more than eight thousand lanes. A
read costs as much as the series that it returns. The series of all others was summed up at the measurement, so an
exporter never iterates over all lanes, which would take Python's lock from the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.instruments import Lag, PathLag
from forebay.broker.runtime.metrics import GROUP, LANE, PARTITION, PLACE, SINK, Metric, MetricKind
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.series import Folded, attributes

Fold = Callable[[Iterable[float]], float]
Value = Callable[[Lag], float | None]


class Measured:
    """One figure of all lanes of a subscription, as it was measured."""

    def __init__(self, lanes: Sequence[Lag], value: Value, fold: Fold) -> None:
        points = [(lane.partition, found) for lane in lanes if (found := value(lane)) is not None]
        self.points = points
        """By partition; lanes without a value are left out."""
        self.folded = fold(found for _, found in points) if points else None
        """All of them as one."""


@dataclass(frozen=True, slots=True)
class LaneFigure:
    """A figure of each lane."""

    metric: Metric
    value: Value
    fold: Fold


def _records(records: int, size: int) -> int:
    return records


def _size(records: int, size: int) -> int:
    return size


def _path_figures(path: str, which: str, of: Callable[[Lag], PathLag]) -> Iterator[LaneFigure]:
    """Yield the figures of the lag of one path."""
    name = f"forebay.reader.{path}.lag"
    records = Metric(name, GAUGE, "{record}", f"Records not settled {which}", LANE)
    size = Metric(f"{name}.size", GAUGE, "By", f"Bytes not settled {which}", LANE)
    age = Metric(f"{name}.age", GAUGE, "s", f"Age of the oldest unsettled record {which}", LANE)
    yield LaneFigure(records, lambda lane: of(lane).records, sum)
    yield LaneFigure(size, lambda lane: of(lane).size, sum)
    yield LaneFigure(age, lambda lane: of(lane).age_us / 1e6, max)


GAUGE, COUNTER = MetricKind.GAUGE, MetricKind.COUNTER
LANES: Final = (
    LaneFigure(
        Metric("forebay.subscription.lag", GAUGE, "{record}", "Records not settled", LANE),
        lambda lane: lane.pending,
        sum,
    ),
    LaneFigure(
        Metric("forebay.subscription.lag.size", GAUGE, "By", "Bytes not settled", LANE),
        lambda lane: lane.pending_bytes,
        sum,
    ),
    LaneFigure(
        Metric("forebay.subscription.lag.age", GAUGE, "s", "Age of the oldest unsettled record", LANE),
        lambda lane: lane.oldest_age_us / 1e6,
        max,
    ),
    LaneFigure(
        Metric("forebay.reader.mode", GAUGE, "1", "1: a consumer reads from memory, 2: from the store", LANE),
        lambda lane: None if lane.realtime is None else 1 if lane.realtime else 2,
        max,
    ),
    LaneFigure(
        Metric("forebay.reader.mode.duration", GAUGE, "s", "Time that the connected consumer has had its mode", LANE),
        lambda lane: None if lane.realtime is None else lane.mode_s,
        max,
    ),
    LaneFigure(
        Metric("forebay.reader.mode.switches", COUNTER, "{switch}", "Switches between memory and store", LANE),
        lambda lane: lane.mode_switches,
        sum,
    ),
    LaneFigure(
        Metric("forebay.subscription.position", GAUGE, "{record}", "Lowest offset that is not settled", LANE),
        lambda lane: lane.watermark,
        max,
    ),
    *_path_figures("realtime", "that memory holds", lambda lane: lane.in_memory),
    *_path_figures("catchup", "to be read from the store", lambda lane: lane.in_store),
)
"""Figures of the lag, as measured by the loop."""
STORED: Final[dict[Metric, Callable[[int, int], int]]] = {
    Metric("forebay.sink.depth", GAUGE, "{record}", "Records stored", PLACE): _records,
    Metric("forebay.sink.size", GAUGE, "By", "Bytes of pages stored", PLACE): _size,
}
"""Figures of each partition, from its records and bytes."""
OF_BROKER: Final[dict[Metric, Callable[[Broker], float]]] = {
    Metric("forebay.streams", GAUGE, "{stream}", "Open publish, deliver, replay and watch streams"): (
        lambda broker: len(broker.streams)
    ),
    Metric("forebay.streams.size", GAUGE, "By", "Memory held for streams, which `stream_bytes_max` bounds"): (
        lambda broker: broker.stream_memory.budget.used
    ),
    Metric("forebay.tail.size", GAUGE, "By", "Newest pages kept in memory"): lambda broker: broker.tail.size,
    Metric("forebay.realtime.failures", COUNTER, "{failure}", "Failures of the memory for the newest pages"): (
        lambda broker: broker.tail.failures
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
    Metric("forebay.backup.failures", COUNTER, "{backup}", "Backups that failed"): lambda broker: (
        broker.backups.failures
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
GAUGES: Final = (*STORED, *(figure.metric for figure in LANES), CONNECTIONS, *OF_BROKER)
"""All metrics that are read when an exporter asks."""


class Gauges:
    """The observable instruments of one broker."""

    def __init__(self, meter: Meter, *, on_asked: Callable[[], None] = lambda: None) -> None:
        """``on_asked`` is called on an exporter's thread when it reads a lag."""
        self._on_asked = on_asked
        self._broker: Broker | None = None
        self._connections: Connections | None = None
        self._lags: dict[tuple[str, str], dict[Metric, Measured]] = {}
        """By sink and subscription, then by metric."""
        self._stored: dict[str, tuple[int, int]] = {}
        """Records and bytes, by sink."""
        observers: dict[Metric, Callable[[], Iterable[Observation]]] = {
            **{metric: partial(self._of_logs, value) for metric, value in STORED.items()},
            **{figure.metric: partial(self._of_lanes, figure) for figure in LANES},
            **{metric: partial(self._of_broker, value) for metric, value in OF_BROKER.items()},
            CONNECTIONS: self._open,
        }
        for metric, observe in observers.items():
            counts = metric.kind is MetricKind.COUNTER
            create = meter.create_observable_counter if counts else meter.create_observable_gauge
            create(metric.name, [_callback(observe)], metric.unit, metric.description)

    def watch(self, broker: Broker) -> None:
        """Observe this broker."""
        self._broker = broker

    def watch_connections(self, connections: Connections) -> None:
        """Observe these connections."""
        self._connections = connections

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag]) -> None:
        """Take the lag of a subscription."""
        self._lags[sink, subscription] = {each.metric: Measured(lanes, each.value, each.fold) for each in LANES}

    def stored(self, sink: str, records: int, size: int) -> None:
        """Take the sums of a sink."""
        self._stored[sink] = (records, size)

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Remove the figures of a sink, or those of one of its subscriptions."""
        for key in [key for key in self._lags if key[0] == sink and subscription in {None, key[1]}]:
            del self._lags[key]
        if subscription is None:
            self._stored.pop(sink, None)

    def _of_broker(self, value: Callable[[Broker], float]) -> Iterable[Observation]:
        return [Observation(value(self._broker), attributes({}))] if self._broker is not None else []

    def _of_logs(self, value: Callable[[int, int], int]) -> Iterable[Observation]:
        folded = Folded(sum)
        for buffer in list(self._broker.sinks.values()) if self._broker is not None else []:
            stored = self._stored.get(buffer.name)
            if folded.is_full and stored is not None:
                folded.add_rest(value(*stored))
                continue
            for log in buffer.logs:
                folded.add({SINK: buffer.name, PARTITION: str(log.number)}, value(log.records, log.size))
        return folded.observations()

    def _of_lanes(self, figure: LaneFigure) -> Iterable[Observation]:
        self._on_asked()
        folded = Folded(figure.fold)
        for (sink, subscription), figures in list(self._lags.items()):
            measured = figures[figure.metric]
            if folded.is_full:
                if measured.folded is not None:
                    folded.add_rest(measured.folded)
                continue
            for partition, number in measured.points:
                folded.add({SINK: sink, PARTITION: str(partition), GROUP: subscription}, number)
        return folded.observations()

    def _open(self) -> Iterable[Observation]:
        counts = self._connections.counts if self._connections is not None else {}
        return [Observation(count, attributes({"use": use.name.lower()})) for use, count in counts.items()]


def _callback(observe: Callable[[], Iterable[Observation]]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda options: observe()
