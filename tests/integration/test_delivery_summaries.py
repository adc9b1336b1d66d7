"""The running summary of `forebay deliver`: events in a log, a line at a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from tests.support.calls.eventually import until
from tests.support.targets.scripted_server import Answer, serving

WAIT_S = 60.0


@contextmanager
def delivering(endpoint: str, to: str, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    """Deliver `orders` until the block ends, then stop gracefully."""
    words = ["deliver", "orders", "--to", to, "-e", endpoint, "--summary-interval", "200ms"]
    process = subprocess.Popen([sys.executable, "-m", "forebay.cli", *words], stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait(WAIT_S)


def test_an_outage_of_the_target_is_two_events_and_a_summary_now_and_then(
    broker: BrokerServer, client: Client, tmp_path: Path
) -> None:
    client.sinks.create("orders", partitions=4, retry_backoff_min_s=0.01, retry_backoff_max_s=0.02)
    for partition in range(4):
        client.publish("orders", [Record(b"1"), Record(b"2")], partition=partition)
    answers, path = [Answer(503)], tmp_path / "log"
    with (
        path.open("wb") as log,
        serving(lambda _: answers[0]) as remote,
        delivering(broker.endpoint, remote.url, log.fileno()),
    ):
        until(lambda: "deliveries were summarized" in path.read_text() and len(remote.requests) > 20, timeout_s=WAIT_S)
        answers[0] = Answer(200)
        until(lambda: "target recovered" in path.read_text(), timeout_s=WAIT_S)
    text = path.read_text()

    assert text.count("target failed sink=orders subscription=default") == 1
    assert text.count("target recovered sink=orders subscription=default") == 1
    assert "delivered=0 per_s=0.0 waiting=8 failed_attempts=" in text
    assert "rejected for redelivery" not in text
    [end] = [line for line in text.splitlines() if "deliverer stopped" in line]
    assert "finished=True delivered=8 failed_attempts=" in end


def test_the_query_of_an_address_is_sent_and_never_logged(broker: BrokerServer, client: Client, tmp_path: Path) -> None:
    client.sinks.create("orders", retry_backoff_min_s=0.01, retry_backoff_max_s=0.02)
    client.publish("orders", [Record(b"1")])
    path = tmp_path / "log"
    with (
        path.open("wb") as log,
        serving(lambda _: Answer(503)) as remote,
        delivering(broker.endpoint, f"{remote.url}?token=SECRET#SECRET", log.fileno()),
    ):
        until(lambda: "target failed" in path.read_text(), timeout_s=WAIT_S)
        sent = remote.requests[0].path
    text = path.read_text()

    assert sent == "/records?token=SECRET"
    assert f"delivering orders (default) to {remote.url}; Ctrl-C stops" in text
    assert "SECRET" not in text


def test_a_terminal_shows_a_line_and_the_events_above_it(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"1"), Record(b"2"), Record(b"3")])
    master, terminal = pty.openpty()
    shown = bytearray()
    with serving(lambda _: Answer(200)) as remote, delivering(broker.endpoint, remote.url, terminal):
        os.close(terminal)
        while b"3 delivered" not in shown or b"0 waiting" not in shown:
            shown += os.read(master, 4_096)
    os.close(master)

    assert b"deliverer started sink=orders" in shown
    assert b"were summarized" not in shown
