"""Names, kinds, units and attributes of metrics, and names and kinds of spans: dashboards and alerts depend on them.

A name that is changed here breaks the dashboards of users: add, do not rename.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.metrics import Meter, MeterProvider, NoOpMeter
from opentelemetry.trace import SpanKind

from docs.generator.blocks import fill
from forebay.broker.core.partition.pages import Body, DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime import metrics
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.telemetry.figures import GAUGES
from forebay.broker.telemetry.instruments import METRICS, OpenTelemetryInstruments
from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.client.telemetry import Telemetry
from forebay.deliver import Batch, BatchLimits, Reject
from forebay.deliver import Delivered as Taken
from forebay.deliver.dispatcher import Dispatcher
from forebay.deliver.health import TargetHealth
from forebay.deliver.telemetry import Instruments as DelivererInstruments
from tests.support.pages.samples import entry
from tests.support.targets.memory_source import MemoryDelivery, records
from tests.support.targets.recording_target import RecordingTarget
from tests.support.telemetry.observed import Observed

ROOT: Final = Path(__file__).resolve().parents[2]
COUNTER, HISTOGRAM, GAUGE = "counter", "histogram", "gauge"
TOTAL: Final = "observable counter"
"""A counter that is read when an exporter asks."""
PLACE: Final = ("sink", "partition")
LANE: Final = (*PLACE, "group")
SHORT: Final = {metrics.SINK: "sink", metrics.PARTITION: "partition", metrics.GROUP: "group"}


def _short(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels as they are written here."""
    return tuple(SHORT.get(label, label) for label in labels)


# name: (kind, unit, attributes beside messaging.system)
PROMISED: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "forebay.calls.refused": (COUNTER, "{call}", ("caller", "reason")),
    "forebay.connections": (GAUGE, "{connection}", ("use",)),
    "forebay.connections.closed": (COUNTER, "{connection}", ("reason",)),
    "forebay.delivered.records": (COUNTER, "{record}", LANE),
    "forebay.delivery.failures": (COUNTER, "{failure}", ("sink", "group", "reason")),
    "forebay.dropped.records": (COUNTER, "{record}", (*PLACE, "reason")),
    "forebay.ingest.bytes": (COUNTER, "By", PLACE),
    "forebay.ingest.duration": (HISTOGRAM, "s", ("sink",)),
    "forebay.ingest.records": (COUNTER, "{record}", PLACE),
    "forebay.reader.mode": (GAUGE, "1", LANE),
    "forebay.reader.catchup.lag": (GAUGE, "{record}", LANE),
    "forebay.reader.catchup.lag.age": (GAUGE, "s", LANE),
    "forebay.reader.catchup.lag.size": (GAUGE, "By", LANE),
    "forebay.reader.mode.duration": (GAUGE, "s", LANE),
    "forebay.reader.mode.switches": (COUNTER, "{switch}", LANE),
    "forebay.reader.realtime.lag": (GAUGE, "{record}", LANE),
    "forebay.reader.realtime.lag.age": (GAUGE, "s", LANE),
    "forebay.reader.realtime.lag.size": (GAUGE, "By", LANE),
    "forebay.redelivered.records": (COUNTER, "{record}", LANE),
    "forebay.residence.duration": (HISTOGRAM, "s", ("sink", "group")),
    "forebay.settled.records": (COUNTER, "{record}", (*LANE, "outcome")),
    "forebay.sink.depth": (GAUGE, "{record}", PLACE),
    "forebay.sink.size": (GAUGE, "By", PLACE),
    "forebay.storage.sync.duration": (HISTOGRAM, "s", ()),
    "forebay.streams": (GAUGE, "{stream}", ()),
    "forebay.streams.shed": (COUNTER, "{stream}", ()),
    "forebay.streams.size": (GAUGE, "By", ()),
    "forebay.subscription.lag": (GAUGE, "{record}", LANE),
    "forebay.subscription.lag.age": (GAUGE, "s", LANE),
    "forebay.subscription.lag.size": (GAUGE, "By", LANE),
    "forebay.tail.size": (GAUGE, "By", ()),
    "forebay.disk.free": (GAUGE, "By", ()),
    "forebay.disk.reserve": (GAUGE, "By", ()),
    "forebay.info": (GAUGE, "1", ("version", "state")),
    "forebay.ingest.refused": (COUNTER, "{append}", ("sink", "reason")),
    "forebay.memory.used": (GAUGE, "By", ()),
    "forebay.memory.watermark": (GAUGE, "By", ()),
    "forebay.sink.dead_letters": (GAUGE, "{record}", ("sink",)),
    "forebay.sink.limit.used": (GAUGE, "1", ("sink",)),
    "forebay.sink.staged.size": (GAUGE, "By", ("sink",)),
    "forebay.sink.state": (GAUGE, "1", ("sink", "state")),
    "forebay.storage.write.stall": (GAUGE, "1", ()),
    "forebay.storage.write.stall.time": (COUNTER, "s", ()),
    "forebay.subscription.state": (GAUGE, "1", ("sink", "group", "state")),
    "rpc.server.call.duration": (HISTOGRAM, "s", ("rpc.method", "rpc.response.status_code")),
    "forebay.background.failures": (COUNTER, "{failure}", ()),
    "forebay.quarantine.evicted.pages": (COUNTER, "{page}", ()),
    "forebay.quarantine.pages": (GAUGE, "{page}", ()),
    "forebay.storage.read.failures": (COUNTER, "{failure}", ()),
    "forebay.storage.unreadable.partitions": (GAUGE, "{partition}", ()),
    "forebay.broker.size": (GAUGE, "By", ()),
    "forebay.broker.size.limit": (GAUGE, "By", ()),
    "forebay.connections.limit": (GAUGE, "{connection}", ()),
    "forebay.sink.depth.limit": (GAUGE, "{record}", ("sink", "limit")),
    "forebay.sink.size.limit": (GAUGE, "By", ("sink", "limit")),
    "forebay.streams.limit": (GAUGE, "{stream}", ()),
    "forebay.streams.size.limit": (GAUGE, "By", ()),
}
"""Metrics of the broker that dashboards use. A new one need not be listed here; see ``METRICS``."""
BROKER: Final = {
    each.name: (TOTAL if each in GAUGES and each.kind == COUNTER else str(each.kind), each.unit, _short(each.labels))
    for each in METRICS
}
CLIENT: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "messaging.client.consumed.messages": (COUNTER, "{message}", ("sink", "group", "operation")),
    "messaging.client.operation.duration": (HISTOGRAM, "s", ("sink", "group", "operation")),
    "messaging.client.sent.messages": (COUNTER, "{message}", ("sink", "operation")),
    "messaging.process.duration": (HISTOGRAM, "s", ("sink", "group", "operation")),
}
POSITIONS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "forebay.position.lag": (GAUGE, "{record}", ("sink", "group")),
    "forebay.position.save.age": (GAUGE, "s", ("sink", "group")),
    "forebay.position.save.failures": (COUNTER, "{failure}", ("sink", "group")),
    "forebay.position.saves": (COUNTER, "{save}", ("sink", "group")),
}
DELIVERED: Final = (*LANE, "operation", "messaging.operation.type")
DELIVERER: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "forebay.deliver.duration": (HISTOGRAM, "s", DELIVERED),
    "forebay.deliver.gaps": (COUNTER, "{gap}", DELIVERED),
    "forebay.deliver.records": (COUNTER, "{record}", DELIVERED),
    "forebay.deliver.rejects": (COUNTER, "{record}", DELIVERED),
    "forebay.deliver.retries": (COUNTER, "{batch}", DELIVERED),
}
SPANS: Final = {
    "buffer orders": SpanKind.INTERNAL,
    "send orders": SpanKind.PRODUCER,
    "deliver orders": SpanKind.CONSUMER,
    "settle orders": SpanKind.CLIENT,
    "process orders": SpanKind.INTERNAL,
}


class NotingMeters(MeterProvider):
    """Notes which instruments are made, measured or not."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, str]] = {}

    def get_meter(self, name: str, *args: Any, **kwargs: Any) -> Meter:
        """A meter that notes."""
        return _NotingMeter(name, self.made)


class _NotingMeter(NoOpMeter):
    def __init__(self, name: str, made: dict[str, tuple[str, str]]) -> None:
        super().__init__(name)
        self._made = made

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Any:
        self._made[name] = (COUNTER, unit)
        return super().create_counter(name, unit, description)

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Any:
        self._made[name] = (GAUGE, unit)
        return super().create_gauge(name, unit, description)

    def create_histogram(self, name: str, unit: str = "", description: str = "", **rest: Any) -> Any:
        self._made[name] = (HISTOGRAM, unit)
        assert rest.get("explicit_bucket_boundaries_advisory"), f"{name}: the default buckets are for milliseconds"
        return super().create_histogram(name, unit, description)

    def create_observable_gauge(
        self, name: str, callbacks: Sequence[Any] | None = None, unit: str = "", description: str = ""
    ) -> Any:
        self._made[name] = (GAUGE, unit)
        return super().create_observable_gauge(name, callbacks, unit, description)

    def create_observable_counter(
        self, name: str, callbacks: Sequence[Any] | None = None, unit: str = "", description: str = ""
    ) -> Any:
        self._made[name] = (TOTAL, unit)
        return super().create_observable_counter(name, callbacks, unit, description)


def broker_instruments(meters: MeterProvider) -> None:
    """Make the broker's instruments."""
    OpenTelemetryInstruments(meters.get_meter("test"), Observed().tracers.get_tracer("test"))


@pytest.mark.parametrize(
    ("make", "table"),
    [
        (broker_instruments, BROKER),
        (lambda meters: Telemetry("orders", meters=meters), CLIENT),
        (lambda meters: SaveTelemetry("orders", "billing", meters=meters), POSITIONS),
        (lambda meters: DelivererInstruments("orders", "default", meters=meters), DELIVERER),
    ],
    ids=["broker", "client", "positions", "deliverer"],
)
def test_every_metric_has_the_name_kind_and_unit_that_were_promised(
    make: Callable[[MeterProvider], object], table: dict[str, tuple[str, str, tuple[str, ...]]]
) -> None:
    meters = NotingMeters()

    make(meters)

    assert meters.made == {name: (kind, unit) for name, (kind, unit, _) in table.items()}


def test_no_metric_that_was_promised_is_renamed_or_removed() -> None:
    found = {each.name: (str(each.kind), each.unit, _short(each.labels)) for each in METRICS}

    assert {name: found.get(name) for name in PROMISED} == PROMISED
    assert len(found) == len(METRICS)


def everything_measured() -> Observed:
    """Metrics of broker, client and deliverer after each of their events has happened once."""
    seen = Observed()
    broker = OpenTelemetryInstruments(seen.meters.get_meter("broker"), seen.tracers.get_tracer("broker"))
    page = entry(0)
    broker.ingested("orders", 0, [page], 1)
    broker.synced(Synced(0.1, 1, 1, 1))
    broker.delivered("orders", "default", Delivered(0, 1, 0, ((page, Body(0, b"")),), (Range(0, 1),), (), False), 1, 1)
    broker.settled("orders", "default", 0, "acked", 1)
    broker.resided("orders", "default", [(1.0, "")])
    broker.failed("orders", "default", "nack")
    broker.dropped("orders", 0, DropReason.OVERFLOW, 1)
    broker.connections_closed("per_peer", 1)
    broker.call_refused("unknown", "TOKEN_REFUSED")
    broker.stream_shed(1)
    broker.append_refused("orders", "SINK_FULL")
    broker.answered("forebay.v1.AdminService/GetInfo", "OK", 0.1)
    publisher = Telemetry("orders", tracers=seen.tracers, meters=seen.meters)
    publisher.sent(publisher.send(0, 1, None), 1)
    client = Telemetry("orders", "default", tracers=seen.tracers, meters=seen.meters)
    client.processed(client.deliver(0, 1, []), 1.0)
    client.settled(client.settle("ack", 0, 1, None), 1.0)

    saves = SaveTelemetry("orders", "billing", meters=seen.meters)
    saves.saved(0.0, 0)
    saves.failed(PositionStoreUnavailable("away"), 1.0, 1)

    def rule(batch: Batch) -> Taken | Reject:
        return Taken() if batch.first_offset == 0 else Reject("no", exact=True)

    instruments = DelivererInstruments("orders", "default", tracers=seen.tracers, meters=seen.meters)
    target = RecordingTarget(rule)
    dispatcher = Dispatcher(
        "orders",
        target,
        BatchLimits(records_max=1),
        retry_delay_max_s=1.0,
        instruments=instruments,
        health=TargetHealth("orders", "default"),
        stopping=lambda: False,
    )
    dispatcher.deliver(MemoryDelivery(records(2)))
    dispatcher.deliver(MemoryDelivery([], gap="offsets 0 to 3"))
    return seen


def test_every_series_has_the_attributes_that_were_promised_and_no_others() -> None:
    promised = {
        name: set(attributes) for name, (_, _, attributes) in {**BROKER, **CLIENT, **POSITIONS, **DELIVERER}.items()
    }

    found = {
        name: {key for point in points for key in point.at if key != "error.type"}
        for name, points in everything_measured().metrics().items()
    }

    assert found == {name: promised[name] for name in found}
    gauges = {name for name, (kind, _, _) in BROKER.items() if kind in {GAUGE, TOTAL}}  # those need a running broker
    assert set(promised) - set(found) <= gauges | {"forebay.deliver.retries"}


def test_every_span_has_the_name_and_kind_that_were_promised() -> None:
    assert {span.name: span.kind for span in everything_measured().spans()} == SPANS


def test_the_reference_names_every_metric_and_no_other() -> None:
    text = fill((ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8"))
    tables = (BROKER, DELIVERER, CLIENT, POSITIONS)

    rows = re.findall(r"^\| `((?:forebay|messaging|rpc)\.[a-z._]+)` \| (\w+) \| `([^`]+)` \|", text, re.M)

    assert {name: (kind, unit) for name, kind, unit in rows} == {
        name: (kind.removeprefix("observable "), unit) for table in tables for name, (kind, unit, _) in table.items()
    }
