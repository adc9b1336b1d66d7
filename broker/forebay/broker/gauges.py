"""Gauges of the broker: depth, size, lag, readers and memory, read by exporters on demand.

Exporters read on threads of their own. They read counters that the loop changes, at worst as of a moment ago. The lag
is the last measurement of the loop: within the last second, less often in a broker of more than ten thousand lanes. A
read costs as much as the series that it returns. The series of all others was summed up at the measurement, so an
exporter never iterates over all lanes, which would take Python's lock from the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.instruments import Lag
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.series import GROUP, PARTITION, SINK, Folded, attributes

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

    name: str
    unit: str
    description: str
    value: Value
    fold: Fold


LANES: Final = (
    LaneFigure("forebay.subscription.lag", "{record}", "Records not settled", lambda lane: lane.pending, sum),
    LaneFigure("forebay.subscription.lag.size", "By", "Bytes not settled", lambda lane: lane.pending_bytes, sum),
    LaneFigure(
        "forebay.subscription.lag.age",
        "s",
        "Age of the oldest unsettled record",
        lambda lane: lane.oldest_age_us / 1e6,
        max,
    ),
    LaneFigure(
        "forebay.reader.mode",
        "1",
        "1: a consumer reads from memory, 2: from the store",
        lambda lane: None if lane.realtime is None else 1 if lane.realtime else 2,
        max,
    ),
)


class Gauges:
    """The observable instruments of one broker."""

    def __init__(self, meter: Meter, *, on_asked: Callable[[], None] = lambda: None) -> None:
        """``on_asked`` is called on an exporter's thread when it reads a lag."""
        self._on_asked = on_asked
        self._broker: Broker | None = None
        self._connections: Connections | None = None
        self._lags: dict[tuple[str, str], dict[str, Measured]] = {}
        """By sink and subscription, then by instrument."""
        self._stored: dict[str, tuple[int, int]] = {}
        """Records and bytes, by sink."""
        self._of_logs(
            meter,
            "forebay.sink.depth",
            "{record}",
            "Records stored",
            lambda log: log.records,
            lambda of_all: of_all[0],
        )
        self._of_logs(
            meter, "forebay.sink.size", "By", "Bytes of pages stored", lambda log: log.size, lambda of_all: of_all[1]
        )
        for figure in LANES:
            self._of_lanes(meter, figure)
        meter.create_observable_gauge("forebay.connections", [self._open], "{connection}", "Open connections by use")
        meter.create_observable_gauge("forebay.streams", [self._streams], "{stream}", "Open streams")
        self._of_broker(meter.create_observable_gauge, "forebay.tail.size", "By", "Newest pages kept in memory", _tail)
        self._of_broker(
            meter.create_observable_counter,
            "forebay.storage.read.failures",
            "{failure}",
            "Reads of the store that failed, those that worked when tried again included",
            lambda broker: broker.pages.holds.failures,
        )
        self._of_broker(
            meter.create_observable_gauge,
            "forebay.storage.unreadable.partitions",
            "{partition}",
            "Partitions that wait for reads of the store to work again",
            lambda broker: len(broker.pages.holds),
        )
        self._of_broker(
            meter.create_observable_counter,
            "forebay.background.failures",
            "{failure}",
            "Background work of the broker that failed and was restarted",
            lambda broker: sum(failed.count for failed in list(broker.supervisor.failures.values())),
        )
        self._of_broker(
            meter.create_observable_gauge,
            "forebay.quarantine.pages",
            "{page}",
            "Damaged pages whose bytes are kept aside",
            lambda broker: broker.quarantine.pages,
        )
        self._of_broker(
            meter.create_observable_counter,
            "forebay.quarantine.evicted.pages",
            "{page}",
            "Quarantined pages given up for newer ones",
            lambda broker: broker.quarantine.evicted,
        )
        self._of_broker(
            meter.create_observable_gauge,
            "forebay.streams.size",
            "By",
            "Memory held for streams",
            lambda broker: broker.stream_memory.budget.used,
        )

    def watch(self, broker: Broker) -> None:
        """Observe this broker."""
        self._broker = broker

    def watch_connections(self, connections: Connections) -> None:
        """Observe these connections."""
        self._connections = connections

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag]) -> None:
        """Take the lag of a subscription."""
        self._lags[sink, subscription] = {each.name: Measured(lanes, each.value, each.fold) for each in LANES}

    def stored(self, sink: str, records: int, size: int) -> None:
        """Take the sums of a sink."""
        self._stored[sink] = (records, size)

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Remove the figures of a sink, or those of one of its subscriptions."""
        for key in [key for key in self._lags if key[0] == sink and subscription in {None, key[1]}]:
            del self._lags[key]
        if subscription is None:
            self._stored.pop(sink, None)

    def _of_broker(
        self, create: Callable[..., object], name: str, unit: str, description: str, value: Callable[[Broker], float]
    ) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value(self._broker), attributes({}))] if self._broker is not None else []

        create(name, [observe], unit, description)

    def _of_logs(
        self,
        meter: Meter,
        name: str,
        unit: str,
        description: str,
        value: Callable[[PartitionLog], float],
        of_all: Callable[[tuple[int, int]], float],
    ) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            folded = Folded(sum)
            for buffer in list(self._broker.sinks.values()) if self._broker is not None else []:
                stored = self._stored.get(buffer.name)
                if folded.is_full and stored is not None:
                    folded.add_rest(of_all(stored))
                    continue
                for log in buffer.logs:
                    folded.add({SINK: buffer.name, PARTITION: str(log.number)}, value(log))
            return folded.observations()

        meter.create_observable_gauge(name, [observe], unit, description)

    def _of_lanes(self, meter: Meter, figure: LaneFigure) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            self._on_asked()
            folded = Folded(figure.fold)
            for (sink, subscription), figures in list(self._lags.items()):
                measured = figures[figure.name]
                if folded.is_full:
                    if measured.folded is not None:
                        folded.add_rest(measured.folded)
                    continue
                for partition, number in measured.points:
                    folded.add({SINK: sink, PARTITION: str(partition), GROUP: subscription}, number)
            return folded.observations()

        meter.create_observable_gauge(figure.name, [observe], figure.unit, figure.description)

    def _open(self, options: CallbackOptions) -> Iterable[Observation]:
        counts = self._connections.counts if self._connections is not None else {}
        return [Observation(count, attributes({"use": use.name.lower()})) for use, count in counts.items()]

    def _streams(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._broker.streams, attributes({}))] if self._broker is not None else []


def _tail(broker: Broker) -> float:
    return broker.tail.size
