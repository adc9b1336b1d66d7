"""The trace of one record: from the commit of its micro-batch in Spark to its settlement, over an outage and a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forebay.client import Client
from tests.support.calls.eventually import stats_when, until
from tests.support.processes.broker import free_port, serve_command
from tests.support.targets.scripted_server import Answer, serving
from tests.support.telemetry.otlp import Receiver, Span, receiving

ROW: Final = "row-4711"
AWAY: Final = Answer(503)
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


def environment(receiver: Receiver, **more: str) -> dict[str, str]:
    """The environment of a process that exports its spans, every one of them."""
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**theirs, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100", **more}


@contextmanager
def delivering(endpoint: str, url: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a deliverer until the block ends."""
    words = ["deliver", "orders", "--to", url, "-e", endpoint]
    with subprocess.Popen([sys.executable, "-m", "forebay.cli", *words], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def connected(start: Span, spans: list[Span]) -> set[str]:
    """Return the names of the spans that parents and links connect with a span."""
    found, known = [start], {start.context}
    while found:
        one = found.pop()
        for other in spans:
            if other.context in known:
                continue
            is_family = (other.trace_id, other.parent_id) == one.context or (
                one.trace_id,
                one.parent_id,
            ) == other.context
            if is_family or one.context in other.links or other.context in one.links:
                known.add(other.context)
                found.append(other)
    return {span.name for span in spans if span.context in known}


def test_the_way_of_a_record_is_one_story_from_its_micro_batch_to_its_settlement(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.txt").write_text(ROW, encoding="utf-8")
    listen, answers = f"127.0.0.1:{free_port()}", [AWAY]
    with receiving() as receiver, serving(lambda _: answers[0]) as remote:
        env = environment(receiver)
        names = {"OTEL_SERVICE_NAME": "spark", "SPARK_APPLICATION_ID": "spark-story"}
        workers = environment(receiver, OTEL_PYTHON_TRACER_PROVIDER="forebay", **names)
        with serve_command(tmp_path / "data", listen, environment=env) as first:
            with Client(first.ready()) as client:
                client.sinks.create("orders", retry_backoff_min_s=0.1, retry_backoff_max_s=0.2)
            words = [sys.executable, "-c", JOB, listen, str(tmp_path / "input"), str(tmp_path / "checkpoint")]
            subprocess.run(words, env=workers, check=True, timeout=500, stdout=subprocess.DEVNULL)
            with delivering(listen, remote.url, env) as deliverer:
                until(lambda: len(remote.requests) >= 3, timeout_s=60)
                assert first.kill() == -signal.SIGKILL
                with serve_command(tmp_path / "data", listen, environment=env) as second, Client(listen) as client:
                    second.ready()
                    answers[0] = Answer(200)
                    stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].acked == 1)
                    deliverer.terminate()
                    assert (deliverer.wait(30), second.terminate()) == (0, 0)
        [task] = receiver.spans("spark write orders")
        [commit] = receiver.spans("spark commit orders")
        [send] = receiver.spans("send orders")
        deliveries = receiver.spans("deliver orders", 2)
        settled = receiver.spans("settle orders", 2)
        buffered, processed = receiver.spans("buffer orders"), receiver.spans("process orders", 3)
        requests = receiver.spans("POST", 3)

    assert commit.links == {task.context}
    assert commit.attributes["forebay.epoch.number"] == 0
    assert str(commit.attributes["forebay.epoch.producer"]).startswith(str(task.attributes["spark.streaming.query.id"]))
    of_batch = ("spark.streaming.query.id", "spark.streaming.batch.id")
    assert [commit.attributes[name] for name in of_batch] == [task.attributes[name] for name in of_batch]
    assert (task.attributes["spark.streaming.batch.id"], commit.attributes["messaging.batch.message_count"]) == ("0", 1)
    assert (send.trace_id, send.parent_id) == task.context
    host, _, port = listen.rpartition(":")
    named = [(one.attributes["server.address"], one.attributes["server.port"]) for one in (send, *deliveries, *settled)]
    assert set(named) == {(host, int(port))}
    assert (task.attributes["spark.app.id"], commit.attributes["spark.app.id"]) == ("spark-story", "spark-story")
    assert all(span.links == {send.context} for span in (*buffered, *deliveries))
    assert {span.service for span in deliveries} == {"forebay-deliver"}
    assert "error.type" in processed[0].attributes
    assert requests[0].attributes["error.type"] == "503"
    assert {(one.trace_id, one.parent_id) for one in requests} <= {one.context for one in processed}
    everything = [task, commit, send, *buffered, *deliveries, *processed, *requests, *settled]
    assert connected(commit, everything) == {span.name for span in everything}
    assert ROW not in repr(everything)
