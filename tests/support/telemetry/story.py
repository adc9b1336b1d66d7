"""Trace of one sampled record from Spark to its settlement, over an outage and a kill.

The target is unreachable at first, and the broker is killed meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from forebay.client import Client
from tests.support.calls.eventually import stats_when, until
from tests.support.processes.broker import free_port, serve_command
from tests.support.targets.scripted_server import Answer, serving
from tests.support.telemetry.otlp import Span

ROW: Final = "row-4711"
TITLE: Final = "the target's own words"
AWAY: Final = Answer(503, {"Content-Type": "application/problem+json"}, json.dumps({"title": TITLE}).encode())
JOB: Final = """
import sys
from forebay.spark.session import local_session

session = local_session("trace")
rows = session.readStream.format("text").load(sys.argv[2])
query = rows.writeStream.format("forebay").option("endpoint", sys.argv[1]).option("sink", "orders")
query = query.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True).start()
query.awaitTermination()
session.stop()
"""


class Spans(Protocol):
    """Storage of the exported spans."""

    def spans(self, name: str, count: int = 1) -> list[Span]:
        """Return the spans of a name, once there are so many."""

    def all_spans(self) -> list[Span]:
        """Return every span that came so far."""


@dataclass(frozen=True, slots=True)
class Story:
    """Facts beside the spans."""

    listen: str
    """Address of the broker."""

    killed_ns: int
    """Time of the clock at which the broker had been killed."""


def environment(endpoint: str, *, ratio: int, **more: str) -> dict[str, str]:
    """Return the environment of a process that exports to ``endpoint`` and samples all its traces, or none."""
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ours = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(ratio),
    }
    return {**theirs, **ours, **more}


def lived(
    folder: Path,
    endpoint: str,
    source: Spans,
    *,
    broker: Mapping[str, str] = MappingProxyType({}),
    unreachable: Callable[[], None] = lambda: None,
    settled: Callable[[], None] = lambda: None,
) -> Story:
    """Write a sampled record from Spark, deliver it after an outage and a kill, and then one that is not sampled.

    All processes export to ``endpoint`` and have ended; ``broker`` are further variables of the broker. ``unreachable``
    is called in the outage, after the kill, and ``settled`` when both records are, while the broker runs.
    """
    (folder / "input").mkdir()
    (folder / "input" / "1.txt").write_text(ROW, encoding="utf-8")
    listen, answers = f"127.0.0.1:{free_port()}", [AWAY]
    names = {"OTEL_SERVICE_NAME": "spark", "SPARK_APPLICATION_ID": "spark-story"}
    providers = {f"OTEL_PYTHON_{signal}_PROVIDER": "forebay" for signal in ("TRACER", "METER")}
    env, workers = environment(endpoint, ratio=0), environment(endpoint, ratio=1, **names, **providers)
    serve = partial(serve_command, folder / "data", listen, environment={**env, **broker})
    with serving(lambda _: answers[0]) as remote, serve() as first:
        first.ready()
        with Client(listen) as client:
            client.sinks.create("orders", retry_backoff_min_s=0.1, retry_backoff_max_s=0.2)
        words = [sys.executable, "-c", JOB, listen, str(folder / "input"), str(folder / "checkpoint")]
        subprocess.run(words, env=workers, check=True, timeout=500, stdout=subprocess.DEVNULL)
        with _delivering(listen, remote.url, env) as deliverer:
            until(lambda: len(remote.requests) >= 3, timeout_s=60)
            source.spans("buffer orders")  # of this broker: what it has not exported ends with it
            assert first.kill() == -signal.SIGKILL
            killed_ns = time.time_ns()
            with serve() as second:
                second.ready()
                attempts = len(remote.requests)
                until(lambda: len(remote.requests) >= attempts + 2, timeout_s=60)  # the outage outlasts the kill
                unreachable()
                with Client(listen) as client:
                    answers[0] = Answer(200)
                    _await_acked(client, 1)
                    _publish("other", listen, env)
                    _await_acked(client, 2)
                settled()
                deliverer.terminate()
                assert (deliverer.wait(30), second.terminate()) == (0, 0)
    return Story(listen, killed_ns)


def _publish(value: str, endpoint: str, env: Mapping[str, str]) -> None:
    words = [sys.executable, "-m", "forebay.cli", "publish", "orders", value, "-e", endpoint]
    subprocess.run(words, env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)


def _await_acked(client: Client, records: int) -> None:
    stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].acked == records, timeout_s=60)


@contextmanager
def _delivering(endpoint: str, url: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a deliverer until the block ends."""
    words = ["deliver", "orders", "--to", url, "-e", endpoint]
    with subprocess.Popen([sys.executable, "-m", "forebay.cli", *words], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def assert_one_story(story: Story, source: Spans) -> None:
    """Assert that parents and links connect all spans of the record, and that no other spans were exported."""
    [task] = source.spans("spark write orders")
    [commit] = source.spans("spark commit orders")
    [send] = source.spans("send orders")
    buffered = source.spans("buffer orders", 2)
    deliveries, settled = source.spans("deliver orders", 2), source.spans("settle orders", 2)
    attempts, requests = source.spans("process orders", 6), source.spans("POST", 6)

    _assert_written(story, task, commit, send)
    assert all(span.links == {send.context} for span in (*buffered, *deliveries))
    assert {span.service for span in buffered} == {"forebay-broker"}
    assert {span.service for span in (*deliveries, *settled, *attempts, *requests)} == {"forebay-deliver"}
    assert {(one.trace_id, one.parent_id) for one in attempts} <= {one.context for one in deliveries}
    assert {(one.trace_id, one.parent_id) for one in requests} == {one.context for one in attempts}
    assert all(span.links <= {one.context for one in deliveries} for span in settled)
    _assert_kept_over_the_kill(story, commit, buffered)
    _assert_settled_after_failures(story, attempts, requests, deliveries, settled)

    spans = source.all_spans()
    assert _connected(commit, spans) == {span.context for span in spans}
    assert ROW not in repr(spans)
    assert TITLE not in repr(spans)


def _assert_written(story: Story, task: Span, commit: Span, send: Span) -> None:
    assert commit.links == {task.context}
    assert commit.attributes["forebay.epoch.number"] == 0
    assert str(commit.attributes["forebay.epoch.producer"]).startswith(str(task.attributes["spark.streaming.query.id"]))
    of_batch = ("spark.streaming.query.id", "spark.streaming.batch.id")
    assert [commit.attributes[name] for name in of_batch] == [task.attributes[name] for name in of_batch]
    assert (task.attributes["spark.streaming.batch.id"], commit.attributes["messaging.batch.message_count"]) == ("0", 1)
    assert (task.attributes["spark.app.id"], commit.attributes["spark.app.id"]) == ("spark-story", "spark-story")
    assert (send.trace_id, send.parent_id) == task.context
    assert {span.service for span in (task, commit, send)} == {"spark"}
    host, _, port = story.listen.rpartition(":")
    assert (send.attributes["server.address"], send.attributes["server.port"]) == (host, int(port))
    assert task.start_ns <= send.start_ns <= task.end_ns <= commit.end_ns


def _assert_kept_over_the_kill(story: Story, commit: Span, buffered: Sequence[Span]) -> None:
    """Both brokers gave the record out, and both know since when it is there."""
    assert len({span.start_ns for span in buffered}) == 1
    assert buffered[0].start_ns <= commit.end_ns
    assert min(span.end_ns for span in buffered) < story.killed_ns < max(span.end_ns for span in buffered)


def _assert_settled_after_failures(
    story: Story,
    attempts: Sequence[Span],
    requests: Sequence[Span],
    deliveries: Sequence[Span],
    settled: Sequence[Span],
) -> None:
    """The attempts of the outage failed with what the target answered, and the last one was acked."""
    *failed, last = sorted(attempts, key=lambda span: span.start_ns)
    answers = {(one.trace_id, one.parent_id): one.attributes.get("http.response.status_code") for one in requests}
    assert [(one.attributes["error.type"], answers[one.context]) for one in failed] == [("retry", 503)] * len(failed)
    assert ("error.type" in last.attributes, answers[last.context]) == (False, 200)
    assert failed[0].start_ns < story.killed_ns < failed[-1].start_ns
    [delivery] = [one for one in deliveries if one.context == (last.trace_id, last.parent_id)]
    [ack] = [one for one in settled if delivery.context in one.links]
    assert (ack.attributes["messaging.operation.name"], "error.type" in ack.attributes) == ("ack", False)
    nacks = [one for one in settled if one is not ack]
    assert {one.attributes["messaging.operation.name"] for one in nacks} == {"nack"}
    assert min(one.start_ns for one in nacks) < story.killed_ns < ack.start_ns


def _connected(start: Span, spans: Sequence[Span]) -> set[tuple[bytes, bytes]]:
    """Return the spans that parents and links connect with a span."""
    found, known = [start], {start.context}
    while found:
        one = found.pop()
        for other in spans:
            parents = {(one.trace_id, one.parent_id), (other.trace_id, other.parent_id)}
            is_near = bool(parents & {one.context, other.context}) or one.context in other.links
            if other.context not in known and (is_near or other.context in one.links):
                known.add(other.context)
                found.append(other)
    return known
