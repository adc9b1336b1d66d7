"""What stands in the broker now: depth, size, lag, readers and memory, told whenever an exporter asks.

Exporters ask on threads of their own. They read counters that the loop changes, at worst as of a moment ago; lag is
what the loop measured last, within the last second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from holdfast.broker.core.log import PartitionLog
from holdfast.broker.runtime.broker import Broker
from holdfast.broker.runtime.connections import Connections
from holdfast.broker.runtime.stats import LaneState
from holdfast.broker.series import GROUP, PARTITION, SINK, attributes, folded

Fold = Callable[[Iterable[float]], float]
Place = Mapping[str, str]


class Gauges:
    """The observable instruments of one broker."""

    def __init__(self, meter: Meter, *, on_asked: Callable[[], None] = lambda: None) -> None:
        """``on_asked`` is called on an exporter's thread when it asks for a lag."""
        self._on_asked = on_asked
        self._broker: Broker | None = None
        self._connections: Connections | None = None
        self._lags: dict[tuple[str, str], list[LaneState]] = {}
        self._of_logs(meter, "holdfast.sink.depth", "{record}", "Records stored", lambda log: log.records)
        self._of_logs(meter, "holdfast.sink.size", "By", "Bytes of pages stored", lambda log: log.size)
        self._of_lanes(
            meter, "holdfast.subscription.lag", "{record}", "Records not settled", lambda lane: lane.pending, sum
        )
        self._of_lanes(
            meter, "holdfast.subscription.lag.size", "By", "Bytes not settled", lambda lane: lane.pending_bytes, sum
        )
        self._of_lanes(
            meter,
            "holdfast.subscription.lag.age",
            "s",
            "Age of the oldest unsettled record",
            lambda lane: lane.oldest_age_us / 1e6,
            max,
        )
        self._of_lanes(
            meter,
            "holdfast.reader.mode",
            "1",
            "1: a consumer reads from memory, 2: from the store",
            lambda lane: None if lane.realtime is None else 1 if lane.realtime else 2,
            max,
        )
        meter.create_observable_gauge("holdfast.connections", [self._open], "{connection}", "Open connections by use")
        meter.create_observable_gauge("holdfast.streams", [self._streams], "{stream}", "Open streams")
        self._of_broker(meter.create_observable_gauge, "holdfast.tail.size", "By", "Newest pages kept in memory", _tail)
        self._of_broker(
            meter.create_observable_counter,
            "holdfast.storage.read.failures",
            "{failure}",
            "Reads of the store that failed, those that worked when tried again included",
            lambda broker: broker.services.pages.holds.failures,
        )
        self._of_broker(
            meter.create_observable_gauge,
            "holdfast.storage.unreadable.partitions",
            "{partition}",
            "Partitions that wait for reads of the store to work again",
            lambda broker: len(broker.services.pages.holds),
        )
        self._of_broker(
            meter.create_observable_counter,
            "holdfast.background.failures",
            "{failure}",
            "Background work of the broker that failed and was restarted",
            lambda broker: sum(failed.count for failed in list(broker.supervisor.failures.values())),
        )
        self._of_broker(
            meter.create_observable_gauge,
            "holdfast.quarantine.pages",
            "{page}",
            "Damaged pages whose bytes are kept aside",
            lambda broker: broker.quarantine.pages,
        )
        self._of_broker(
            meter.create_observable_counter,
            "holdfast.quarantine.evicted.pages",
            "{page}",
            "Quarantined pages given up for newer ones",
            lambda broker: broker.quarantine.evicted,
        )
        self._of_broker(
            meter.create_observable_gauge,
            "holdfast.streams.size",
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

    def measured(self, sink: str, subscription: str, lanes: list[LaneState]) -> None:
        """Take the lag of a subscription."""
        self._lags[sink, subscription] = lanes

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Let go of a sink's lag, or of one of its subscriptions'."""
        for key in [key for key in self._lags if key[0] == sink and subscription in {None, key[1]}]:
            del self._lags[key]

    def _of_broker(
        self, create: Callable[..., object], name: str, unit: str, description: str, value: Callable[[Broker], float]
    ) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value(self._broker), attributes({}))] if self._broker is not None else []

        create(name, [observe], unit, description)

    def _of_logs(
        self, meter: Meter, name: str, unit: str, description: str, value: Callable[[PartitionLog], float]
    ) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return folded(((place, value(log)) for place, log in self._logs()), sum)

        meter.create_observable_gauge(name, [observe], unit, description)

    def _of_lanes(
        self,
        meter: Meter,
        name: str,
        unit: str,
        description: str,
        value: Callable[[LaneState], float | None],
        fold: Fold,
    ) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            self._on_asked()
            found = ((place, value(lane)) for place, lane in self._lanes())
            return folded(((place, number) for place, number in found if number is not None), fold)

        meter.create_observable_gauge(name, [observe], unit, description)

    def _logs(self) -> Iterator[tuple[Place, PartitionLog]]:
        sinks = list(self._broker.sinks.values()) if self._broker is not None else []
        for buffer in sinks:
            for log in buffer.logs:
                yield {SINK: buffer.name, PARTITION: str(log.number)}, log

    def _lanes(self) -> Iterator[tuple[Place, LaneState]]:
        for (sink, subscription), lanes in list(self._lags.items()):
            for lane in lanes:
                yield {SINK: sink, PARTITION: str(lane.partition), GROUP: subscription}, lane

    def _open(self, options: CallbackOptions) -> Iterable[Observation]:
        counts = self._connections.counts if self._connections is not None else {}
        return [Observation(count, attributes({"use": use.name.lower()})) for use, count in counts.items()]

    def _streams(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._broker.streams, attributes({}))] if self._broker is not None else []


def _tail(broker: Broker) -> float:
    return broker.tail.size
