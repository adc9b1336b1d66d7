"""One record's telemetry, sent to a real collector as users configure it, and read back from Jaeger and Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.observability.conftest import until
from tests.support.processes.broker import free_port
from tests.support.telemetry.collector import Collector
from tests.support.telemetry.jaeger import Jaeger
from tests.support.telemetry.prometheus import Prometheus
from tests.support.telemetry.story import ROW, Story, assert_one_story, lived

pytestmark = pytest.mark.timeout(600)  # Spark is slow on a loaded machine
CHANGED: Final = "subscription changed state"
SETTLED: Final = 'forebay_settled_records_total{job="forebay",outcome="acked"}'


def total(prometheus: Prometheus, query: str) -> float:
    """Return the sum of the series that answer a query."""
    return sum(float(series["value"][1]) for series in prometheus.query(query))


@dataclass(frozen=True, slots=True)
class Exported:
    """A story, and where its telemetry is."""

    story: Story
    jaeger: Jaeger
    prometheus: Prometheus
    collector: Collector


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """Run collector, Jaeger and Prometheus, and let a record live through an outage and a kill."""
    metrics = f"127.0.0.1:{free_port()}"
    jaeger = Jaeger(tmp_path_factory.mktemp("jaeger"))
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), scrapes=metrics)
    folder = tmp_path_factory.mktemp("collector")
    collector = Collector(folder, jaeger=jaeger.otlp, prometheus=prometheus.otlp)
    servers = (jaeger, prometheus, collector)
    try:
        for server in servers:
            server.start()
        # As in compose.yaml: the broker's metrics are scraped, all others come by OTLP.
        broker = {"OTEL_METRICS_EXPORTER": "none", "FOREBAY_METRICS_LISTEN": metrics}
        story = lived(
            tmp_path_factory.mktemp("story"),
            collector.endpoint,
            jaeger,
            broker=broker,
            # A broker that is killed has perhaps not exported it, and it is no event if nothing waits for a second.
            unreachable=lambda: until(lambda: CHANGED in collector.log(), f"{CHANGED!r} did not come"),
            settled=lambda: until(lambda: total(prometheus, SETTLED) == 2, "the broker was not scraped"),
        )
        yield Exported(story, jaeger, prometheus, collector)
    finally:
        for server in servers:
            server.close()


def test_the_trace_of_a_sampled_record_is_one_story_in_jaeger(exported: Exported) -> None:
    assert_one_story(exported.story, exported.jaeger)
    assert exported.jaeger.services() == {"spark", "forebay-broker", "forebay-deliver"}


@pytest.mark.parametrize(
    ("series", "value"),
    [
        ('messaging_client_sent_messages_total{job="spark",messaging_destination_name="orders"}', 1),
        ('messaging_client_sent_messages_total{job="forebay-publish",messaging_destination_name="orders"}', 1),
        ('forebay_deliver_records_total{job="forebay-deliver",messaging_destination_name="orders"}', 2),
        ('messaging_process_duration_seconds_count{job="forebay-deliver",error_type=""}', 2),
        (SETTLED, 2),
    ],
)
def test_the_metrics_of_every_process_are_in_prometheus(series: str, value: int, exported: Exported) -> None:
    query = f"last_over_time({series}[1h])"  # the processes have ended

    until(lambda: exported.prometheus.query(query) != [], f"no series answers {query}")

    assert total(exported.prometheus, query) == value


def test_a_duration_in_prometheus_names_the_trace_of_its_delivery_in_jaeger(exported: Exported) -> None:
    spans = {(span.trace_id.hex(), span.span_id.hex()) for span in exported.jaeger.spans("deliver orders")}

    exemplars = exported.prometheus.exemplars('messaging_process_duration_seconds_bucket{job="forebay-deliver"}')

    assert exemplars
    assert {(labels["trace_id"], labels["span_id"]) for labels in exemplars} <= spans


@pytest.mark.parametrize("event", ["target failed", "target recovered", CHANGED])
def test_a_log_event_is_in_the_log_of_the_collector(event: str, exported: Exported) -> None:
    until(lambda: event in exported.collector.log(), f"{event!r} did not come")


def test_the_collector_accepts_the_shipped_configuration_without_a_warning_and_quotes_no_record(
    exported: Exported,
) -> None:
    log = exported.collector.log()

    assert "deprecated" not in log
    assert "Exporting failed" not in log
    assert ROW not in log
