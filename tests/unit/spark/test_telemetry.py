"""Telemetry of a task is exported before the task ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forebay.spark.telemetry import PAUSE_S, Flusher

NEVER_MS = 3_600_000

# Providers are set once per process, so a task with an SDK runs in a process of its own.
TASK = """
import json, pyarrow as pa
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql.types import BinaryType, StructField, StructType
from forebay.client import testing
from forebay.spark import ForebayDataSource

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
trace.set_tracer_provider(provider)
with testing.broker() as broker:
    with broker.client() as client:
        client.sinks.create("orders")
    source = ForebayDataSource({"endpoint": broker.endpoint, "sink": "orders"})
    writer = source.writer(StructType([StructField("value", BinaryType())]), False)
    writer.write(iter([pa.record_batch({"value": pa.array([b"x"], pa.binary())})]))
    spans = {span.name: span for span in exporter.get_finished_spans()}
task, send = spans["spark write orders"], spans["send orders"]
print(send.parent.span_id == task.context.span_id, task.attributes["messaging.destination.name"])
"""


def test_spans_do_not_wait_for_the_end_of_the_process() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=NEVER_MS))
    provider.get_tracer("test").start_span("task").end()

    Flusher().flush([provider, object()])

    assert [span.name for span in exporter.get_finished_spans()] == ["task"]
    provider.shutdown()


class Stuck:
    """A provider whose collector does not answer until ``answer`` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = threading.Event()

    def force_flush(self) -> None:
        self.asked += 1
        self.answer.wait(30)


def test_a_collector_that_is_unreachable_holds_up_one_task_and_not_the_ones_after_it() -> None:
    now = [100.0]
    stuck = Stuck()
    flusher = Flusher(clock=lambda: now[0])

    begun = time.monotonic()
    flusher.flush([stuck])
    flusher.flush([stuck])
    taken_s = time.monotonic() - begun
    asked = stuck.asked
    now[0] += PAUSE_S
    stuck.answer.set()
    flusher.flush([stuck])

    assert taken_s < 10
    assert (asked, stuck.asked) == (1, 2)


@pytest.mark.slow
def test_the_pages_of_a_task_are_children_of_the_task() -> None:
    run = subprocess.run([sys.executable, "-c", TASK], capture_output=True, text=True, check=False)

    assert run.stdout.strip() == "True orders", run.stderr
