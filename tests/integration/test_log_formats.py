"""Logs of long-running commands as JSON, and as OTLP with the span that was current."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from tests.support.calls.eventually import until
from tests.support.targets.scripted_server import Answer, serving
from tests.support.telemetry.otlp import receiving

WAIT_S = 60.0


@contextmanager
def running(log: Path, *words: str, **environment: str) -> Iterator[None]:
    """Run a command until the block ends, then stop it gracefully; its log goes to a file."""
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "forebay.cli", *words],
            env={**theirs, **environment},
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(WAIT_S)


def events(log: Path) -> Mapping[str, dict[str, Any]]:
    """The last event of each kind; every line has to be an object."""
    return {event["event"]: event for event in map(json.loads, log.read_text().splitlines())}


def test_an_event_names_the_span_of_the_attempt_in_json_and_in_otlp(
    broker: BrokerServer, client: Client, tmp_path: Path
) -> None:
    client.sinks.create("orders", retry_backoff_min_s=0.01, retry_backoff_max_s=0.02)
    client.publish("orders", [Record(b"payload-4711")])
    answers, log = [Answer(503)], tmp_path / "log"
    with receiving() as receiver, serving(lambda _: answers[0]) as remote:
        words = ("deliver", "orders", "--to", remote.url, "-e", broker.endpoint, "-o", "json", "--log-format", "json")
        with running(log, *words, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint):
            until(lambda: "target failed" in log.read_text(), timeout_s=WAIT_S)
            answers[0] = Answer(200)
            until(lambda: "target recovered" in log.read_text(), timeout_s=WAIT_S)
        exported = receiver.event("target failed")
        spans = {span.context for span in receiver.spans("process orders")}
    failed = events(log)["target failed"]

    assert failed["fields"]["sink"] == exported.attributes["sink"] == "orders"
    assert failed["fields"]["reason"] == exported.attributes["reason"]
    assert (bytes.fromhex(failed["trace_id"]), bytes.fromhex(failed["span_id"])) == exported.span
    assert exported.span in spans
    assert (exported.service, exported.logger, exported.severity) == ("forebay-deliver", "forebay.deliver", "WARN")
    assert "payload-4711" not in log.read_text()


def test_a_broker_logs_json_by_its_setting(tmp_path: Path) -> None:
    log, config = tmp_path / "log", tmp_path / "forebay.toml"
    config.write_text('log_format = "json"\n')
    words = ("serve", "--config", str(config), "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    with running(log, *words):
        until(lambda: "broker is serving" in log.read_text(), timeout_s=WAIT_S)

    assert events(log)["broker is serving"]["fields"]["sinks"] == 0
    assert events(log)["broker has stopped"]["level"] == "INFO"


def test_the_environment_chooses_the_form_for_every_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    with running(log, *words, FOREBAY_LOG_FORMAT="json"):
        until(lambda: "broker is serving" in log.read_text(), timeout_s=WAIT_S)

    assert "broker has stopped" in events(log)
