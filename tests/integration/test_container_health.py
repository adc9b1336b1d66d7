"""Health checks of the containers, `compose/health.py`, against a broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from forebay.client import Client, Overflow, Record, SinkFull, Subscriber

HEALTH: Final = Path(__file__).resolve().parents[2] / "compose" / "health.py"
Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """A health check of one container: the call returns the problem, which the exit code has to agree with."""
    (tmp_path / "tmp").mkdir()

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(HEALTH), *arguments],
            env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        assert done.returncode == (1 if done.stdout else 0)
        return done.stdout.strip()

    return call


@pytest.fixture
def commit(tmp_path: Path) -> Callable[[int], None]:
    """Write the commit of a micro-batch, as Spark names it."""
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    return lambda batch: (tmp_path / "checkpoint" / "commits" / str(batch)).touch()


@pytest.fixture
def deliveries(client: Client) -> Iterator[Subscriber]:
    client.sinks.create("readings")
    with client.subscriber("readings") as subscriber:
        yield subscriber


def test_a_broker_that_serves_is_healthy(client: Client, check: Check) -> None:
    assert check("broker", client.endpoints[0]) == ""


def test_a_deliverer_without_a_connection_is_not_healthy(client: Client, check: Check) -> None:
    client.sinks.create("readings")

    assert check("deliverer", client.endpoints[0], "readings") == "readings has no consumer"


def test_a_deliverer_for_whom_nothing_waits_is_healthy(client: Client, check: Check, deliveries: Subscriber) -> None:
    client.publish("readings", [Record(b"x")])
    next(deliveries).ack(wait=True)

    assert [check("deliverer", client.endpoints[0], "readings") for _ in range(2)] == ["", ""]


def test_a_connected_deliverer_that_answers_nothing_is_not_healthy(
    client: Client, check: Check, deliveries: Subscriber
) -> None:
    client.publish("readings", [Record(b"x")] * 3)
    assert next(deliveries) is not None
    check("deliverer", client.endpoints[0], "readings")

    assert check("deliverer", client.endpoints[0], "readings") == (
        "3 records wait in readings, and none was answered since the last check"
    )


def test_a_slow_deliverer_is_healthy_as_long_as_it_answers(
    client: Client, check: Check, deliveries: Subscriber
) -> None:
    client.publish("readings", [Record(b"x")])
    client.publish("readings", [Record(b"y")])
    check("deliverer", client.endpoints[0], "readings")
    next(deliveries).ack(wait=True)

    assert check("deliverer", client.endpoints[0], "readings") == ""


def test_a_deliverer_whose_target_is_unreachable_is_healthy(
    client: Client, check: Check, deliveries: Subscriber
) -> None:
    client.publish("readings", [Record(b"x")])
    check("deliverer", client.endpoints[0], "readings")
    next(deliveries).nack(delay_s=60.0, reason="the target is away", wait=True)

    assert [check("deliverer", client.endpoints[0], "readings") for _ in range(2)] == ["", ""]


def test_a_job_is_healthy_while_it_commits_batches(
    client: Client, check: Check, tmp_path: Path, commit: Callable[[int], None]
) -> None:
    client.sinks.create("readings")
    asked = "job", str(tmp_path / "checkpoint"), client.endpoints[0], "readings"

    assert check(*asked) == "no batch was committed yet"
    commit(8)
    assert check(*asked) == "no batch was committed since the last check: the newest is 8"  # it may be a former run's
    commit(10)
    assert check(*asked) == ""
    assert check(*asked) == "no batch was committed since the last check: the newest is 10"


def test_a_job_that_waits_for_a_full_sink_is_healthy(
    client: Client, check: Check, tmp_path: Path, commit: Callable[[int], None]
) -> None:
    client.sinks.create("readings", max_disk_cache=1, overflow=Overflow.REJECT)
    client.publish("readings", [Record(b"x")])
    commit(0)
    with pytest.raises(SinkFull):
        client.publish("readings", [Record(b"y")])

    assert check("job", str(tmp_path / "checkpoint"), client.endpoints[0], "readings") == ""


def test_a_job_that_waits_for_a_broker_is_healthy(
    check: Check, tmp_path: Path, commit: Callable[[int], None], free_tcp_port: int
) -> None:
    commit(0)

    assert check("job", str(tmp_path / "checkpoint"), f"127.0.0.1:{free_tcp_port}", "readings") == ""
