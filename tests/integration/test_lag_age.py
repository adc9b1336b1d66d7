"""The metric of the age of the lag against a clock outside of the broker: flowing, in an outage, after a kill.

The broker measures the lag once per second, so that the metric may be one interval old.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from statistics import median
from typing import Final
from urllib.request import urlopen

from forebay.client import Client, Record
from tests.support.calls.eventually import until
from tests.support.processes.broker import free_port, serve_command

INTERVAL_S: Final = 1.0
TOLERANCE_S: Final = INTERVAL_S + 0.1
SAMPLES: Final = 7
PAUSE_S: Final = 0.3
"""Time between two readings of the metric: no multiple divides the interval."""
HELD_S: Final = 0.5
"""Time that the consumer holds each record."""


class Oracle:
    """Publication times of the records that are not settled yet, by the clock of the test."""

    def __init__(self) -> None:
        self._waiting: deque[float] = deque()

    def publish(self, client: Client) -> None:
        """Publish one record."""
        client.publish("orders", [Record(b"x")])
        self._waiting.append(time.monotonic())

    def settled(self) -> None:
        """Note that the oldest record was settled."""
        self._waiting.popleft()

    def age_s(self) -> float:
        """Age of the oldest record that is not settled."""
        oldest = list(self._waiting)[:1]
        return time.monotonic() - oldest[0] if oldest else 0.0


def age_s(port: int) -> float | None:
    """Return the metric as Prometheus reads it; None before the first measurement."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("forebay_subscription_lag_age_seconds{")]
    return float(found[0].rpartition(" ")[2]) if found else None


def difference_s(port: int, oracle: Oracle) -> float:
    """Return the median difference between metric and oracle, over some readings."""
    until(lambda: age_s(port) is not None)
    found = []
    for _ in range(SAMPLES):
        time.sleep(PAUSE_S)
        metric, expected = age_s(port), oracle.age_s()
        assert metric is not None
        found.append(abs(metric - expected))
    return median(found)


def consume(client: Client, oracle: Oracle, stopping: threading.Event) -> None:
    """Settle each record some time after it was received."""
    with client.subscriber("orders") as deliveries:
        for delivery in deliveries:
            records = len(list(delivery))
            if stopping.wait(HELD_S):
                return
            delivery.ack(wait=True)
            for _ in range(records):
                oracle.settled()


def test_the_age_of_the_lag_is_that_of_the_oldest_record_flowing_in_an_outage_and_after_a_kill(tmp_path: Path) -> None:
    oracle, listen, metrics = Oracle(), f"127.0.0.1:{free_port()}", free_port()
    environment = {"FOREBAY_METRICS_LISTEN": f"127.0.0.1:{metrics}"}
    with serve_command(tmp_path / "data", listen, environment=environment) as first:
        first.ready()
        with Client(listen) as client:
            client.sinks.create("orders", buffer_page_size=1)
            stopping = threading.Event()
            consumer = threading.Thread(target=consume, args=(client, oracle, stopping), name="consumer")
            publishing = threading.Thread(target=publish, args=(client, oracle, stopping), name="publisher")
            consumer.start()
            publishing.start()
            flowing = difference_s(metrics, oracle)
            stopping.set()
            publishing.join()
            oracle.publish(client)  # it ends the consumer, which settles it no more
            consumer.join()
            until(lambda: oracle.age_s() > 3 * INTERVAL_S)
            in_an_outage, age_before = difference_s(metrics, oracle), oracle.age_s()
        first.kill()
    with serve_command(tmp_path / "data", listen, environment=environment) as second:
        second.ready()
        after_a_kill, age_after = difference_s(metrics, oracle), oracle.age_s()

    assert flowing < TOLERANCE_S
    assert in_an_outage < TOLERANCE_S < age_before
    assert after_a_kill < TOLERANCE_S < age_after


def publish(client: Client, oracle: Oracle, stopping: threading.Event) -> None:
    """Publish a record now and then."""
    while not stopping.wait(2 * HELD_S):
        oracle.publish(client)
