"""A query copies the sink that another one writes, while their broker and their own processes are killed or frozen."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.client import Client
from tests.fault_spark.driver import Work
from tests.fault_spark.failures import UNEXPECTED, name_of
from tests.fault_spark.looker import committed, number_of
from tests.fault_spark.processes import DriverProcess, Found, Marked, Role
from tests.fault_spark.serving import PARTITIONS, Serving, written_once
from tests.fault_spark.test_drivers import ONE_BATCH_S, START_S, to_the_end, work
from tests.support.spark import buffered

FROZEN_S = 6.0
"""Longer than a micro-batch takes, shorter than the time limits of a write."""


@pytest.fixture
def others() -> Iterator[Marked]:
    """The processes of the query that copies."""
    marked = Marked()
    yield marked
    marked.kill_all()


def advance(*queries: Work) -> None:
    """Return when Spark has called one more micro-batch of each query committed."""
    ends = [committed(Path(query.checkpoint)) + 1 for query in queries]
    until = time.monotonic() + ONE_BATCH_S
    while any(committed(Path(query.checkpoint)) < end for query, end in zip(queries, ends, strict=True)):
        assert time.monotonic() < until, f"no micro-batch within {ONE_BATCH_S:g} s"
        time.sleep(0.1)


def one_of(marked: Marked, role: Role) -> Found:
    """Return a process once there is one that works."""
    until = time.monotonic() + ONE_BATCH_S
    while not (found := marked.find(role)):
        assert time.monotonic() < until, f"no {role} within {ONE_BATCH_S:g} s"
        time.sleep(0.01)
    return found[0]


def unexpected(driver: DriverProcess) -> list[str]:
    """Failures of a query that no kill explains."""
    failures = [driver.events.get() for _ in range(driver.events.qsize())]
    return [event.why for event in failures if event.what == "failed" and name_of(event.why) in UNEXPECTED]


def test_a_copy_of_a_sink_has_each_record_once_whatever_is_killed_or_frozen(
    serving: Serving, marked: Marked, others: Marked, tmp_path: Path
) -> None:
    (tmp_path / "copies").mkdir()
    original = work(serving.endpoint, tmp_path)
    copies = replace(work(serving.endpoint, tmp_path / "copies"), sink="copies", source="orders")
    with Client(serving.endpoint) as client:
        client.sinks.create("copies", partitions=PARTITIONS)

    with written_once(serving, original):
        with DriverProcess(marked, original) as writing, DriverProcess(others, copies) as copying:
            for driver in (writing, copying):
                driver.expect("started", START_S)
            advance(original, copies)
            for role in ("worker", "committer", "planner"):
                others.kill(one_of(others, role))
                advance(original, copies)
                assert others.freeze(one_of(others, role), FROZEN_S)
                advance(original, copies)
            assert marked.freeze(one_of(marked, "worker"), FROZEN_S)
            os.kill(serving.process.pid, signal.SIGSTOP)
            time.sleep(FROZEN_S)
            os.kill(serving.process.pid, signal.SIGCONT)
            advance(original, copies)
            serving.process.kill()
            serving.start()
            advance(original, copies)
            assert unexpected(writing) == []
            assert unexpected(copying) == []
            copying.kill()
        to_the_end(marked, original)
        to_the_end(others, copies)

    records = buffered.records(serving.endpoint, "copies")
    numbers = Counter(number_of(record.value) for record in records)
    assert max(numbers.values()) == 1
    assert sorted(numbers) == list(range((committed(Path(original.checkpoint), "offsets") + 1) * original.rows))
