"""gRPC takes options by name and says nothing of a name that it does not know: every one of ours has to be known."""

from __future__ import annotations

import mmap
from pathlib import Path

import grpc._cython
import pytest

from forebay.broker import server
from forebay.broker.settings import load
from forebay.client.settings import ClientSettings
from forebay.client.transport.channel import Channels

[LIBRARY] = Path(grpc._cython.__file__).parent.glob("cygrpc*.so")
NAMES = [name for name, _ in [*server.options(load(), 1), *Channels(("127.0.0.1:1",), ClientSettings()).options()]]


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_grpc_knows_the_option(name: str) -> None:
    with LIBRARY.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as library:
        assert library.find(name.encode() + b"\0") >= 0, f"{name} means nothing to gRPC"


def test_a_client_may_ask_an_idle_broker_as_often_as_its_settings_allow() -> None:
    allowed_ms = dict(server.OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"]

    least = ClientSettings(keepalive_s=30)

    assert allowed_ms <= least.keepalive_s * 1000


def test_a_probe_that_stays_unanswered_ends_the_connection_at_the_time_that_is_documented_on_both_sides() -> None:
    broker = dict(server.options(load(), 1))
    client = dict(Channels(("127.0.0.1:1",), ClientSettings(keepalive_timeout_s=7)).options())

    ends = [(side["grpc.keepalive_timeout_ms"], side["grpc.http2.ping_timeout_ms"]) for side in (broker, client)]

    assert ends == [(20_000, 20_000), (7_000, 7_000)]
