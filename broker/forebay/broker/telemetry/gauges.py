"""Gauges of the broker, read by exporters on demand; ``figures`` has their table.

Exporters read on threads of their own. They read counters that the loop changes, at worst as of a moment ago. The lag
is the last measurement of the loop: within the last second, less often in a broker of more than eight thousand lanes. A
read costs as much as the series that it returns. The series of all others was summed up at the measurement, so an
exporter never iterates over all lanes, which would take Python's lock from the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from forebay.broker.core.dead_letters.letters import is_dead_letter_sink
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.instruments import Lag, Limit, SinkMeasure
from forebay.broker.runtime.metrics import GROUP, PARTITION, SINK, Metric, MetricKind
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.telemetry.figures import (
    CONNECTIONS,
    CONNECTIONS_LIMIT,
    INFO,
    LANES,
    LIMIT,
    LIMITS,
    OF_BROKER,
    OF_SINK,
    REPLAYS,
    SINK_STATE,
    STATE,
    STORED,
    SUBSCRIPTION_STATE,
    LaneFigure,
    Measured,
    SinkFigure,
)
from forebay.broker.telemetry.series import Folded, Seen, attributes

VERSION: Final = version("forebay")


class Gauges:
    """The observable instruments of one broker."""

    def __init__(
        self, meter: Meter, *, on_asked: Callable[[], None] = lambda: None, clock: Callable[[], float] = monotonic
    ) -> None:
        """``on_asked`` is called on an exporter's thread when it reads a lag. ``clock`` is in seconds."""
        self._on_asked = on_asked
        self._clock = clock
        self._broker: Broker | None = None
        self._connections: Connections | None = None
        self._lags: dict[tuple[str, str], dict[Metric, Measured]] = {}
        """By sink and subscription, then by metric."""
        self._replays: dict[str, dict[Metric, Measured]] = {}
        """By sink, then by metric; sinks without a replay are left out."""
        self._measures: dict[str, SinkMeasure] = {}
        """By sink."""
        self._states: dict[tuple[str, str], str] = {}
        """By sink and subscription."""
        self._seen: defaultdict[Metric, Seen] = defaultdict(Seen)
        observers: dict[Metric, Callable[[], Iterable[Observation]]] = {
            **{metric: partial(self._of_logs, metric, value) for metric, value in STORED.items()},
            **{figure.metric: partial(self._of_lanes, figure) for figure in LANES},
            **{figure.metric: partial(self._of_replays, figure) for figure in REPLAYS},
            **{metric: partial(self._of_broker, value) for metric, value in OF_BROKER.items()},
            **{figure.metric: partial(self._of_sinks, figure) for figure in OF_SINK},
            **{metric: partial(self._of_limits, metric, limit) for metric, limit in LIMITS.items()},
            SINK_STATE: self._sink_states,
            SUBSCRIPTION_STATE: self._subscription_states,
            CONNECTIONS: self._open,
            CONNECTIONS_LIMIT: self._connections_limit,
            INFO: self._info,
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

    def close(self) -> None:
        """Let the broker go: a meter without an exporter keeps its callbacks as long as the process runs."""
        self._broker = self._connections = None
        for figures in (self._lags, self._replays, self._measures, self._states, self._seen):
            figures.clear()

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag], state: str) -> None:
        """Take the lag and the state of a subscription."""
        self._states[sink, subscription] = state
        now = self._clock()
        self._lags[sink, subscription] = {each.metric: Measured(lanes, each, now) for each in LANES}

    def sink_measured(self, sink: str, measure: SinkMeasure) -> None:
        """Take the measurement of a sink."""
        self._measures[sink] = measure

    def replays_measured(self, sink: str, lanes: Sequence[Lag]) -> None:
        """Take the lag of the slowest replays of a sink."""
        self._replays.pop(sink, None)
        if lanes:
            now = self._clock()
            self._replays[sink] = {each.metric: Measured(lanes, each, now) for each in REPLAYS}

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Remove the figures of a sink, or those of one of its subscriptions."""
        for key in [key for key in self._lags if key[0] == sink and subscription in {None, key[1]}]:
            del self._lags[key]
            self._states.pop(key, None)
        if subscription is None:
            self._measures.pop(sink, None)
            self._replays.pop(sink, None)

    def _of_broker(self, value: Callable[[Broker], float | None]) -> Iterable[Observation]:
        found = value(self._broker) if self._broker is not None else None
        return [Observation(found, attributes({}))] if found is not None else []

    def _of_logs(self, metric: Metric, value: Callable[[int, int], int]) -> Iterable[Observation]:
        folded = Folded(sum, self._seen[metric])
        for buffer in list(self._broker.sinks.values()) if self._broker is not None else []:
            measure = self._measures.get(buffer.name)
            if folded.is_full and measure is not None:
                folded.add_rest(value(measure.records, measure.size))
                continue
            for log in buffer.logs:
                folded.add({SINK: buffer.name, PARTITION: str(log.number)}, value(log.records, log.size))
        return folded.observations()

    def _of_lanes(self, figure: LaneFigure) -> Iterable[Observation]:
        self._on_asked()
        folded, now = Folded(figure.fold, self._seen[figure.metric]), self._clock()
        for (sink, subscription), figures in list(self._lags.items()):
            measured = figures[figure.metric]
            foldable = figure.folds_dead_letters or not is_dead_letter_sink(sink)
            if folded.is_full:
                if measured.folded is not None and foldable:
                    folded.add_rest(measured.now(measured.folded, now))
                continue
            for partition, number in measured.points:
                place = {SINK: sink, PARTITION: str(partition), GROUP: subscription}
                folded.add(place, measured.now(number, now), foldable=foldable)
        return folded.observations()

    def _of_replays(self, figure: LaneFigure) -> Iterable[Observation]:
        self._on_asked()
        folded, now = Folded(figure.fold, self._seen[figure.metric]), self._clock()
        for sink, figures in list(self._replays.items()):
            measured = figures[figure.metric]
            for partition, number in measured.points:
                folded.add({SINK: sink, PARTITION: str(partition)}, measured.now(number, now))
        return folded.observations()

    def _of_sinks(self, figure: SinkFigure) -> Iterable[Observation]:
        self._on_asked()
        folded = Folded(figure.fold, self._seen[figure.metric])
        for sink, measure in list(self._measures.items()):
            if (found := figure.value(measure)) is not None:
                folded.add({SINK: sink}, found)
        return folded.observations()

    def _of_limits(self, metric: Metric, limit: Callable[[SinkMeasure], Limit | None]) -> Iterable[Observation]:
        self._on_asked()
        folded = Folded(sum, self._seen[metric])
        for sink, measure in list(self._measures.items()):
            if (found := limit(measure)) is not None:
                folded.add({SINK: sink, LIMIT: found.setting}, found.value)
        return folded.observations()

    def _sink_states(self) -> Iterable[Observation]:
        self._on_asked()
        folded = Folded(sum, self._seen[SINK_STATE])
        for sink, measure in list(self._measures.items()):
            folded.add({SINK: sink, STATE: measure.state}, 1)
        return folded.observations()

    def _subscription_states(self) -> Iterable[Observation]:
        self._on_asked()
        folded = Folded(sum, self._seen[SUBSCRIPTION_STATE])
        for (sink, subscription), state in list(self._states.items()):
            folded.add({SINK: sink, GROUP: subscription, STATE: state}, 1)
        return folded.observations()

    def _info(self) -> Iterable[Observation]:
        broker = self._broker
        if broker is None:
            return []
        fenced = broker.committer.fenced is not None
        state = "fenced" if fenced else "draining" if broker.draining else "serving"
        return [Observation(1, attributes({"version": VERSION, STATE: state}))]

    def _open(self) -> Iterable[Observation]:
        counts = self._connections.counts if self._connections is not None else {}
        return [Observation(count, attributes({"use": use.name.lower()})) for use, count in counts.items()]

    def _connections_limit(self) -> Iterable[Observation]:
        connections = self._connections
        return [Observation(connections.limits.total_max, attributes({}))] if connections is not None else []


def _callback(observe: Callable[[], Iterable[Observation]]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda options: observe()
