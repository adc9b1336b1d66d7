"""Metrics of a follower."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from forebay.broker.settings import load
from forebay.broker.storage.replication.followers.progress import FollowerProgress
from forebay.broker.telemetry.figures import JOURNAL_POSITION
from forebay.broker.telemetry.follower import follower_metrics
from forebay.broker.telemetry.instruments import SERVICE
from tests.support.calls.eventually import until
from tests.support.processes.broker import free_port
from tests.support.telemetry.otlp import receiving


@pytest.fixture(autouse=True)
def no_other_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME")
    for name in (*names, "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def test_a_follower_without_an_exporter_has_no_endpoint() -> None:
    with follower_metrics(load(), FollowerProgress(lambda: 0.0)):
        pass


def test_prometheus_reads_position_and_lag_of_a_follower() -> None:
    port, now = free_port(), 10.0
    progress = FollowerProgress(lambda: now)
    progress.reached(42, end_at_s=8.0)

    with follower_metrics(load(metrics_listen=f"127.0.0.1:{port}"), progress):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        found = {line.partition("{")[0]: line.rpartition(" ")[2] for line in lines if line.startswith("forebay_")}

    assert found["forebay_shard_owner"] == "0.0"
    assert found["forebay_journal_position"] == "42.0"
    assert found["forebay_follower_lag_seconds"] == "2.0"


def test_a_follower_whose_address_for_metrics_is_taken_follows_without_them(caplog: pytest.LogCaptureFixture) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        follower_metrics(load(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}"), FollowerProgress(lambda: 0.0)),
    ):
        pass

    assert "follower exports no metrics" in caplog.text


def test_a_follower_whose_address_for_metrics_is_taken_sends_them_to_other_receivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = FollowerProgress(lambda: 0.0)
    progress.reached(42, end_at_s=0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken, receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        with follower_metrics(load(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}"), progress):
            pass

        until(lambda: JOURNAL_POSITION.name in receiver.metrics(SERVICE))
        assert [point.value for point in receiver.metrics(SERVICE)[JOURNAL_POSITION.name]] == [42.0]


def test_a_follower_with_a_wrong_address_for_metrics_is_refused() -> None:
    settings = load(metrics_listen="192.0.2.1:7463", metrics_allow_anonymous=True)

    with (
        pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:7463"),
        follower_metrics(settings, FollowerProgress(lambda: 0.0)),
    ):
        pass


def test_the_address_is_free_at_once_for_the_broker_that_takes_over() -> None:
    port = free_port()
    with follower_metrics(load(metrics_listen=f"127.0.0.1:{port}"), FollowerProgress(lambda: 0.0)):
        pass

    with socket.create_server(("127.0.0.1", port)) as taken:
        assert taken.getsockname()[1] == port
