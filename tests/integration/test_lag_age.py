"""The metric of the age of the lag against a clock outside of the broker: flowing, in an outage, after a kill.

The broker measures the lag once per second, so that a reading may be the age of a record that was settled since.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from forebay.client import Client, Record
from tests.support.calls.eventually import until
from tests.support.processes.broker import free_port, serve_command

INTERVAL_S: Final = 1.0
TOLERANCE_S: Final = 0.1
"""Delay of a measurement, and time of a call."""
READINGS: Final = 10
PAUSE_S: Final = 0.3
"""Time between two readings of the metric: no multiple divides the interval."""
PERIOD_S: Final = 0.1
"""Time between two records."""
BEHIND_S: Final = 2.5
"""Age at which the consumer settles a record: more than the interval and the tolerance, and the same for all."""


class Oracle:
    """Publication times of the records, and when each was settled, by the clock of the test."""

    def __init__(self) -> None:
        self._waiting: deque[float] = deque()
        self._settled: list[tuple[float, float]] = []
        """Times of settlement and publication."""

    def publish(self, client: Client) -> None:
        """Publish one record."""
        self._waiting.append(time.monotonic())
        client.publish("orders", [Record(b"x")])

    def settled(self) -> None:
        """Note that the oldest record was settled."""
        self._settled.append((time.monotonic(), self._waiting.popleft()))

    def age_s(self) -> float:
        """Age of the oldest record that is not settled."""
        oldest = list(self._waiting)[:1]
        return time.monotonic() - oldest[0] if oldest else 0.0

    def age_of_oldest_at(self, at_s: float) -> float:
        """Age by now of the record that was the oldest at a time."""
        later = (published_s for settled_s, published_s in list(self._settled) if settled_s >= at_s)
        published_s = next(later, None)
        return self.age_s() if published_s is None else time.monotonic() - published_s


@dataclass(frozen=True, slots=True)
class Reading:
    """The metric, and the ages by the oracle between which it has to be."""

    metric_s: float
    least_s: float
    """Of the record that was the oldest when the metric was read."""

    greatest_s: float
    """Of the record that was the oldest one interval before."""

    @property
    def is_right(self) -> bool:
        """Return whether the metric is the age of a record that was the oldest within the interval."""
        return self.least_s - TOLERANCE_S < self.metric_s < self.greatest_s + TOLERANCE_S


def age_s(port: int) -> float | None:
    """Return the metric as Prometheus reads it; None before the first measurement."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("forebay_subscription_lag_age_seconds{")]
    return float(found[0].rpartition(" ")[2]) if found else None


def readings(port: int, oracle: Oracle) -> list[Reading]:
    """Return some readings, from the first measurement on."""
    until(lambda: age_s(port) is not None)
    found = []
    for _ in range(READINGS):
        began, before = time.monotonic(), oracle.age_s()
        metric = age_s(port)
        assert metric is not None
        greatest = oracle.age_of_oldest_at(began - INTERVAL_S - TOLERANCE_S)
        found.append(Reading(metric, min(before, oracle.age_s()), greatest))
        time.sleep(PAUSE_S)
    return found


def consume(client: Client, oracle: Oracle, stopping: threading.Event) -> None:
    """Settle each record when it has a certain age."""
    with client.subscriber("orders") as deliveries:
        for delivery in deliveries:
            records = len(list(delivery))
            if stopping.wait(max(0.0, BEHIND_S - oracle.age_s())):
                return
            delivery.ack(wait=True)
            for _ in range(records):
                oracle.settled()


def publish(client: Client, oracle: Oracle, stopping: threading.Event) -> None:
    """Publish a record now and then."""
    while not stopping.wait(PERIOD_S):
        oracle.publish(client)


def test_each_age_of_the_lag_is_that_of_the_oldest_record_flowing_in_an_outage_and_after_a_kill(tmp_path: Path) -> None:
    oracle, listen, metrics = Oracle(), f"127.0.0.1:{free_port()}", free_port()
    environment = {"FOREBAY_METRICS_LISTEN": f"127.0.0.1:{metrics}"}
    found = {}
    with serve_command(tmp_path / "data", listen, environment=environment) as first:
        first.ready()
        with Client(listen) as client:
            client.sinks.create("orders", buffer_page_size=1)
            stopping = threading.Event()
            consumer = threading.Thread(target=consume, args=(client, oracle, stopping), name="consumer")
            publishing = threading.Thread(target=publish, args=(client, oracle, stopping), name="publisher")
            consumer.start()
            publishing.start()
            until(lambda: oracle.age_s() > 2 * INTERVAL_S)
            found["flowing"] = readings(metrics, oracle)
            stopping.set()
            publishing.join()
            consumer.join()
            found["in an outage"] = readings(metrics, oracle)
        first.kill()
    with serve_command(tmp_path / "data", listen, environment=environment) as second:
        second.ready()
        found["after a kill"] = readings(metrics, oracle)

    for phase, phase_readings in found.items():
        for reading in phase_readings:
            assert reading.is_right, f"{phase}: {reading}"
            assert reading.least_s > INTERVAL_S + TOLERANCE_S, f"{phase}: {reading}"
    assert max(one.least_s for one in found["flowing"]) < BEHIND_S + INTERVAL_S, "the consumer settles the records"
