"""Broker, publisher, deliverer and a Spark task as processes that send OTLP to a receiver, and the Prometheus endpoint.

Intervals are an hour, so that what came was sent because something stopped gracefully.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final
from urllib.request import urlopen

import pytest

from forebay.client import Client
from forebay.client.testing import broker
from tests.support.calls.eventually import stats_when
from tests.support.telemetry.otlp import Point, Receiver, Span, receiving

WAIT_S: Final = 30.0
RARELY: Final = {"OTEL_METRIC_EXPORT_INTERVAL": "3600000", "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
SECRET: Final = "payload-4711"
TASK: Final = """
import os, sys, pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType
from forebay.spark import ForebayDataSource

source = ForebayDataSource({"endpoint": sys.argv[1], "sink": "orders"})
writer = source.writer(StructType([StructField("value", BinaryType())]), False)
writer.write(iter([pa.record_batch({"value": pa.array([b"x", b"y"], pa.binary())})]))
os._exit(0)  # as a worker of Spark ends
"""
CALLER: Final = """
import sys
from forebay.client import Client, Record

with Client(sys.argv[1]) as client:
    client.publish("orders", [Record(b"x")])
"""
LIMITS: Final = {
    "FOREBAY_MAX_BROKER_BYTES": "1000000000",
    "FOREBAY_STREAMS_MAX": "9",
    "FOREBAY_STREAM_BYTES_MAX": "20000000",
    "FOREBAY_CONNECTIONS_MAX": "50",
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver of OTLP."""
    with receiving() as running:
        yield running


@dataclass(frozen=True, slots=True)
class Started:
    """A command that runs, and the JSON object that it said first."""

    process: subprocess.Popen[str]
    said: dict[str, str]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


def environment(**more: str) -> dict[str, str]:
    """The environment of a process, with no other ``OTEL_`` variable than these."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}, **more}


@contextmanager
def command(*words: str, env: Mapping[str, str]) -> Iterator[Started]:
    """Run a ``forebay`` command until it is terminated, at the latest when the context ends."""
    words = (sys.executable, "-m", "forebay.cli", *words, "-o", "json")
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Started(process, json.loads(process.stdout.readline()))
        finally:
            process.kill()


def serving(folder: Path, env: Mapping[str, str], *words: str) -> AbstractContextManager[Started]:
    """A broker on ``folder``."""
    arguments = ("--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", "--log-level", "warning")
    return command("serve", *arguments, *words, env=env)


def publish(endpoint: str, values: list[str], env: Mapping[str, str]) -> None:
    """Publish to `orders` with the command line."""
    words = [sys.executable, "-m", "forebay.cli", "publish", "orders", *values, "-e", endpoint]
    subprocess.run(words, env=dict(env), check=True, stdout=subprocess.DEVNULL, timeout=WAIT_S)


def one(points: list[Point], **attributes: str) -> Point:
    """The only series with these attributes of the messaging conventions or our own."""
    names = {"sink": "messaging.destination.name", "partition": "messaging.destination.partition.id"}
    wanted = {names.get(name, name): value for name, value in attributes.items()}
    [found] = [point for point in points if wanted.items() <= point.attributes.items()]
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_delivery_is_linked_to_its_publish_over_a_restart_of_the_broker(
    how: signal.Signals, receiver: Receiver, tmp_path: Path
) -> None:
    env = environment(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **RARELY)
    with serving(tmp_path, env) as first:
        with Client(first.said["endpoint"]) as client:
            client.sinks.create("orders")
        publish(first.said["endpoint"], [SECRET, "b", "c"], env)
        before = first.end(how)
    after_publish = receiver.metrics("forebay-broker")
    target = tmp_path / "out"
    with serving(tmp_path, env) as second:
        endpoint = second.said["endpoint"]
        options = ("--to", "file", "-O", f"path={target}", "-e", endpoint)
        with command("deliver", "orders", *options, env=env) as deliverer, Client(endpoint) as client:
            stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].pending == 0)
            codes = deliverer.end()
        assert (codes, second.end()) == (0, 0)

    [send] = receiver.spans("send orders")
    [buffer] = receiver.spans("buffer orders")
    [deliver] = receiver.spans("deliver orders")
    [process] = receiver.spans("process orders")
    [settle] = receiver.spans("settle orders")
    assert (send.service, buffer.service, deliver.service) == (
        "forebay-publish",
        "forebay-broker",
        "forebay-deliver",
    )
    assert buffer.links == deliver.links == {send.context}
    assert settle.links == {deliver.context}
    assert (process.trace_id, process.parent_id) == deliver.context
    assert_deliverer_measured(receiver)
    assert_broker_measured(receiver, [send, buffer, deliver, process, settle])
    assert receiver.exemplars("forebay-broker", "forebay.residence.duration") == {send.context}
    if how is signal.SIGTERM:
        assert before == 0
        assert_first_broker_measured(after_publish)


def assert_deliverer_measured(receiver: Receiver) -> None:
    """The publisher and the deliverer have exported their metrics."""
    sent = receiver.metrics("forebay-publish")
    taken = receiver.metrics("forebay-deliver")
    assert one(sent["messaging.client.sent.messages"], sink="orders").value == 3
    assert one(taken["messaging.client.consumed.messages"], sink="orders").value == 3
    assert one(taken["messaging.process.duration"], sink="orders").value == 1
    assert one(taken["forebay.deliver.records"], sink="orders", partition="0").value == 3


def assert_broker_measured(receiver: Receiver, spans: list[Span]) -> None:
    """The delivering broker exported metrics up to its last operation; no telemetry contains a record."""
    measured = receiver.metrics("forebay-broker")
    assert one(measured["forebay.delivered.records"], sink="orders", partition="0").value == 3
    settled = one(measured["forebay.settled.records"], sink="orders", outcome="acked")
    assert (settled.value, settled.unit, settled.kind) == (3, "{record}", "sum")
    residence = one(measured["forebay.residence.duration"], sink="orders")
    assert (residence.value, residence.unit, residence.kind) == (1, "s", "histogram")
    exported = repr([receiver.metrics(f"forebay-{name}") for name in ("broker", "publish", "deliver")])
    assert SECRET not in exported + repr(spans)


def assert_first_broker_measured(measured: dict[str, list[Point]]) -> None:
    """Telemetry that the broker exported at its end."""
    assert one(measured["forebay.ingest.records"], sink="orders").value == 3
    assert one(measured["forebay.ingest.bytes"], sink="orders").unit == "By"
    assert one(measured["forebay.ingest.duration"], sink="orders").value == 1
    assert one(measured["forebay.storage.sync.duration"]).value >= 2
    assert one(measured["forebay.sink.depth"], sink="orders").value == 3
    assert one(measured["forebay.sink.size"], sink="orders").value > len(SECRET)
    assert one(measured["forebay.tail.size"]).kind == "gauge"


def test_a_broker_names_itself_as_the_variables_say_and_exports_nothing_else(
    receiver: Receiver, tmp_path: Path
) -> None:
    env = environment(
        OTEL_METRICS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=receiver.endpoint,
        OTEL_SERVICE_NAME="ours",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        OTEL_METRIC_EXPORT_INTERVAL="100",
    )
    with serving(tmp_path, env, "--metrics-listen", "127.0.0.1:0") as started:
        with Client(started.said["endpoint"]) as client:
            client.sinks.create("orders", partitions=2)
            client.publisher("orders").send(b"x", partition=1).result(WAIT_S)
            text = scraped_when(started.said["metrics"], "forebay_subscription_lag{", '_id="1"', "} 1.0")
        assert started.end() == 0

    assert "forebay_ingest_records_total{" in text
    assert "forebay_subscription_lag_age_seconds{" in text
    assert "process_resident_memory_bytes" in text
    measured = receiver.metrics("ours")
    assert one(measured["forebay.subscription.lag"], sink="orders", partition="1").value == 1
    assert one(measured["forebay.subscription.lag"], sink="orders", partition="0").value == 0
    assert one(measured["forebay.subscription.lag.size"], sink="orders", partition="1").value > 0
    assert one(measured["forebay.subscription.lag.age"], sink="orders", partition="1").value > 0
    [resource] = {tuple(sorted(found.items())) for found in receiver.resources}
    assert {("service.name", "ours"), ("deployment.environment.name", "test")} <= set(resource)


def test_a_broker_exports_its_limits_the_time_of_its_write_stalls_and_the_spans_of_its_callers(
    receiver: Receiver, tmp_path: Path
) -> None:
    env = environment(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_METRIC_EXPORT_INTERVAL="100", **LIMITS)
    caller = environment(
        OTEL_PYTHON_TRACER_PROVIDER="forebay", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_SERVICE_NAME="caller"
    )
    limits = {
        "forebay.broker.size.limit": 1_000_000_000,
        "forebay.streams.limit": 9,
        "forebay.streams.size.limit": 20_000_000,
        "forebay.connections.limit": 50,
        "forebay.sink.depth.limit": 4,
        "forebay.sink.size.limit": 2_000_000,
    }
    with serving(tmp_path, env, "--metrics-listen", "127.0.0.1:0") as started:
        with Client(started.said["endpoint"]) as client:
            client.sinks.create("orders", max_disk_cache=4, max_total_bytes=2_000_000)
        words = [sys.executable, "-c", CALLER, started.said["endpoint"]]
        subprocess.run(words, env=caller, check=True, timeout=WAIT_S)
        text = scraped_when(started.said["metrics"], "forebay_sink_depth_limit{", 'limit="max_disk_cache"', "} 4.0")
        measured = receiver.metrics_with("forebay-broker", *limits, "forebay.storage.write.stall.time")
        assert started.end() == 0

    [stalled] = measured.pop("forebay.storage.write.stall.time")
    assert (stalled.value, stalled.unit, stalled.kind) == (0, "s", "sum")
    assert {name: one(points).value for name, points in measured.items()} == limits
    assert one(measured["forebay.sink.size.limit"], sink="orders").attributes["limit"] == "max_total_bytes"
    [scraped] = [
        line for line in text.splitlines() if line.startswith("forebay_storage_write_stall_time_seconds_total{")
    ]
    assert scraped.endswith(" 0.0")
    [send] = receiver.spans("send orders")
    assert receiver.exemplars("forebay-broker", "rpc.server.call.duration") == {send.context}


def scraped_when(url: str, *words: str) -> str:
    """Return the metrics for Prometheus once a line has all these words; polls, because there is no event."""
    pause, until = Event(), time.monotonic() + WAIT_S
    while True:
        with urlopen(url, timeout=WAIT_S) as answer:
            text = str(answer.read().decode())
        if any(all(word in line for word in words) for line in text.splitlines()):
            return text
        assert time.monotonic() < until, text
        pause.wait(0.05)


def test_the_address_for_prometheus_is_printed_for_people_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "forebay.cli", "serve", "--data-dir", str(tmp_path / "data")]
    words += ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-level", "warning"]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(2)]
            with urlopen(lines[1][-1], timeout=WAIT_S) as answer:
                status = answer.status
            process.terminate()
            process.wait(WAIT_S)
        finally:
            process.kill()

    assert [line[:-1] for line in lines] == [["listening", "on"], ["metrics", "at"]]
    assert (status, process.returncode) == (200, 0)


def test_a_variable_that_is_wrong_is_a_user_s_mistake_and_not_a_stack_trace(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "forebay.cli", "serve", "--data-dir", str(tmp_path / "data"), "--listen"]
    env = environment(OTEL_TRACES_EXPORTER="nowhere")

    run = subprocess.run([*words, "127.0.0.1:0"], env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)

    assert run.returncode == 2
    assert "no exporter of traces is installed under the name 'nowhere'" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_task_of_spark_has_sent_everything_when_it_ends(receiver: Receiver) -> None:
    env = environment(
        OTEL_PYTHON_TRACER_PROVIDER="forebay",
        OTEL_PYTHON_METER_PROVIDER="forebay",
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        OTEL_SERVICE_NAME="task",
        **RARELY,
    )
    with broker() as running, running.client() as client:
        client.sinks.create("orders")
        words = [sys.executable, "-c", TASK, running.endpoint]
        run = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)

    assert (run.returncode, run.stderr) == (0, "")
    [task] = receiver.spans("spark write orders")
    [send] = receiver.spans("send orders")
    assert (task.service, send.parent_id) == ("task", task.span_id)
    assert one(receiver.metrics("task")["messaging.client.sent.messages"], sink="orders").value == 2
