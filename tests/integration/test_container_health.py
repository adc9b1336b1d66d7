"""Health checks of the containers, `compose/health.py`, against a broker."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest

from forebay.client import Client, Overflow, Record, SinkFull, Subscriber
from tests.support.calls.eventually import until
from tests.support.processes.broker import Launcher, free_port

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


def test_a_member_that_owns_its_shard_or_keeps_up_is_healthy_and_says_so(tmp_path: Path) -> None:
    common = {"journal": str(tmp_path / "journal"), "shard": "a", "metrics_allow_anonymous": True}
    one, other = [(f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}") for _ in range(2)]
    with Launcher() as launcher, launcher.start(tmp_path / "one", one[1], metrics_listen=one[0], **common) as first:
        first.ready()
        with launcher.start(tmp_path / "other", other[1], metrics_listen=other[0], **common) as second:
            until(lambda: member(*other)[0] == 0, timeout_s=60.0)
            code, role = member(*other)
            assert (code, role.partition(",")[0]) == (0, "follower")
            assert member(*one) == (0, "owner")

            assert first.terminate() == 0
            second.ready()
            assert member(*other) == (0, "owner")
            code, problem = member(*one)
            assert code == 1
            assert "refused" in problem


def test_a_member_whose_journal_does_not_answer_is_not_healthy(tmp_path: Path) -> None:
    metrics, endpoint = (f"127.0.0.1:{free_port()}" for _ in range(2))
    settings = {
        "journal": str(tmp_path / "journal"),
        "shard": "a",
        "takeover_after_s": 1.0,
        "metrics_listen": metrics,
        "metrics_allow_anonymous": True,
    }
    with Launcher() as launcher, launcher.start(tmp_path / "a", endpoint, **settings) as owner:
        owner.ready()
        (tmp_path / "journal").rename(tmp_path / "away")

        until(lambda: member(metrics, endpoint) == (1, "owner, not ready: NOT_SERVING"), timeout_s=60.0)

        (tmp_path / "away").rename(tmp_path / "journal")
        until(lambda: member(metrics, endpoint) == (0, "owner"), timeout_s=60.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forebay_shard_owner 0\nforebay_follower_lag_seconds 10.5\n", "follower, 10.5 s behind\nmore than 10 s"),
        ('forebay_records{a="b"} 7\n', "neither an owner nor a follower"),
    ],
)
def test_a_member_that_is_behind_or_has_no_role_is_not_healthy(text: str, said: str) -> None:
    with serving(text) as metrics:
        assert member(metrics, f"127.0.0.1:{free_port()}") == (1, said)


@contextmanager
def serving(text: str) -> Iterator[str]:
    """Serve a page of metrics; yields its HOST:PORT."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics")
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def member(metrics: str, endpoint: str) -> tuple[int, str]:
    """Return the exit code and the output of the check of a broker of a shard."""
    command = [sys.executable, str(HEALTH), "member", metrics, endpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


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
