"""Connections that are slow, relayed, or whose certificates change: no client fails or stalls."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientSettings,
    Publisher,
    Record,
    RetryPolicy,
    Subscriber,
    TlsSettings,
)
from forebay.errors.reasons import Reason
from tests.support.certificates import Authority, Pair
from tests.support.proxies.relay import Relay
from tests.support.refusals import failure

WAIT_S = 30.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.signed("broker")


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Callable[..., BrokerServer]]:
    """Start a broker over the same data, at the same port, as often as a test wants."""
    running: list[BrokerServer] = []
    port = [0]

    def start(**settings: Any) -> BrokerServer:
        given = load(data_dir=tmp_path / "data", listen=f"127.0.0.1:{port[0]}", disk_reserve_bytes=0, **settings)
        server = BrokerServer.on_disk(given)
        server.start()
        port[0] = int(server.endpoint.rpartition(":")[2])
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def encrypted(pair: Pair) -> dict[str, str]:
    return {"tls_server_cert_file": str(pair.cert), "tls_server_key_file": str(pair.key)}


def trusting(cert: Path) -> ClientSettings:
    reconnect = RetryPolicy(tries_max=None, delay_max_s=0.2, budget_s=None)
    return ClientSettings(tls=TlsSettings(ca_file=str(cert)), reconnect=reconnect)


def next_values(subscriber: Subscriber, seconds: float = WAIT_S) -> list[bytes]:
    """Return the values of the next delivery, acked."""
    delivery = subscriber.take(seconds)
    assert delivery is not None
    values = delivery.values()
    delivery.ack(wait=True)
    return values


def works(publisher: Publisher, subscriber: Subscriber, value: bytes) -> None:
    """Send a record through both."""
    publisher.send(value).result(WAIT_S)
    assert next_values(subscriber) == [value]


@pytest.mark.parametrize("secure", [False, True])
def test_round_trips_of_half_a_second_keep_no_client_out(secure: bool, authority: Authority, pair: Pair) -> None:
    settings = trusting(authority.cert) if secure else ClientSettings()
    given: dict[str, Any] = dict(encrypted(pair)) if secure else {}
    with (
        BrokerServer.in_memory(**given) as broker,
        Relay(broker.endpoint, one_way_s=0.25) as relay,
        Client(relay.endpoint, settings=settings) as client,
    ):
        client.sinks.create("orders")
        with client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:
            works(publisher, subscriber, b"a")


def test_pages_that_are_damaged_on_their_way_are_sent_again_and_stored_once_and_in_order() -> None:
    left = [3]

    def damage(chunk: bytes) -> bytes:
        place = chunk.find(b"v" * 1_000)
        if place < 0 or not left[0]:
            return chunk
        left[0] -= 1
        return chunk[: place + 500] + b"w" + chunk[place + 501 :]

    with (
        BrokerServer.in_memory() as broker,
        Relay(broker.endpoint, damage=damage) as relay,
        Client(relay.endpoint) as client,
    ):
        client.sinks.create("orders")
        with client.publisher("orders", page_records=1) as publisher:
            futures = [publisher.send(b"%d " % number + b"v" * 2_000) for number in range(10)]
            assert [future.result(WAIT_S).first_offset for future in futures] == list(range(10))
        records = list(client.replay("orders", partition=0))

    assert left == [0]
    assert [getattr(record, "value", b"").partition(b" ") for record in records] == [
        (b"%d" % number, b" ", b"v" * 2_000) for number in range(10)
    ]


def test_behind_a_relay_that_ends_tls_a_restart_of_the_broker_ends_no_client(
    restartable: Callable[..., BrokerServer], authority: Authority, pair: Pair
) -> None:
    broker = restartable()
    with (
        Relay(broker.endpoint, tls=pair) as relay,
        Client(relay.endpoint, settings=trusting(authority.cert)) as client,
    ):
        client.sinks.create("orders")
        with client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:
            works(publisher, subscriber, b"before")
            broker.stop()
            until(lambda: relay.closed_at_once >= 6)
            with pytest.raises(BrokerUnavailable, match="a proxy does while its broker is unavailable"):
                Client(relay.endpoint, settings=client.settings).publish("orders", [Record(b"x")])
            restartable()
            works(publisher, subscriber, b"after")


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.02)


def test_certificates_that_are_missing_for_a_moment_while_the_broker_restarts_end_no_client(
    restartable: Callable[..., BrokerServer], authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    shown = tmp_path / "ca.pem"
    shown.write_bytes(authority.cert.read_bytes())
    broker = restartable(**encrypted(pair))
    with Client(broker.endpoint, settings=trusting(shown)) as client:
        client.sinks.create("orders")
        with client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:
            works(publisher, subscriber, b"before")
            shown.unlink()
            broker.stop()
            threading.Event().wait(0.5)
            shown.write_bytes(authority.cert.read_bytes())
            restartable(**encrypted(pair))
            works(publisher, subscriber, b"after")


def test_a_new_authority_is_taken_up_without_a_restart_of_the_client(
    restartable: Callable[..., BrokerServer], authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    shown = tmp_path / "ca.pem"
    shown.write_bytes(authority.cert.read_bytes())
    broker = restartable(**encrypted(pair))
    new = Authority(tmp_path / "new", "new")
    with Client(broker.endpoint, settings=trusting(shown)) as client:
        client.sinks.create("orders")
        with client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:
            works(publisher, subscriber, b"before")
            broker.stop()
            restartable(**encrypted(new.signed("broker")))
            with pytest.raises(BrokerUnavailable, match="not trusted"):
                client.info()
            (tmp_path / "next").write_bytes(new.cert.read_bytes())
            os.replace(tmp_path / "next", shown)
            works(publisher, subscriber, b"after")
            assert client.info().version


def test_a_certificate_that_stays_wrong_ends_a_publisher_and_a_subscriber_with_what_is_wrong(
    restartable: Callable[..., BrokerServer], authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    broker = restartable(**encrypted(pair))
    settings = replace(trusting(authority.cert), handshake_patience_s=1.0)
    with Client(broker.endpoint, settings=settings) as client:
        client.sinks.create("orders")
        publisher, subscriber = client.publisher("orders"), client.subscriber("orders")
        works(publisher, subscriber, b"before")
        broker.stop()
        restartable(**encrypted(Authority(tmp_path / "other", "other").signed("broker")))
        with failure(Reason.HANDSHAKE_FAILED, match="not trusted"):
            subscriber.take(WAIT_S)
        with failure(Reason.HANDSHAKE_FAILED, match="not trusted"):
            publish_until_it_ends(publisher)
        publisher.abandon()


def publish_until_it_ends(publisher: Publisher) -> None:
    """Publish until the publisher raises what ended it."""
    while True:
        publisher.send(b"late").result(WAIT_S)


def test_the_connections_of_a_broker_are_listed_with_who_does_what(restartable: Callable[..., BrokerServer]) -> None:
    broker = restartable()
    with Client(broker.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        with client.publisher("orders") as publisher, client.subscriber("orders", consumer_id="worker-1") as records:
            publisher.send_many([b"x"] * 10).result(WAIT_S)
            found = 0
            while found < 10:
                found += len(next(records))
            streams = {one.method: one for connection in client.connections() for one in connection.streams}

    publish, deliver = streams["Publish"], streams["Deliver"]
    assert (publish.sink, publish.records, publish.principal) == ("orders", 10, "anonymous")
    assert (deliver.sink, deliver.subscription, deliver.client_id) == ("orders", "default", "worker-1")
    assert (deliver.records, deliver.in_flight) == (10, 10)
    assert deliver.credit_records > 0
    assert publish.records_per_s > 0


@pytest.mark.slow
def test_a_connection_without_an_open_call_is_closed_after_its_time_and_another_stays() -> None:
    closed, watched_closed = threading.Event(), threading.Event()
    with (
        BrokerServer.in_memory(connection_idle_s=10.0) as server,
        grpc.insecure_channel(server.endpoint) as idle,
        # A channel of its own: channels with the same options share their connections.
        grpc.insecure_channel(server.endpoint, [("grpc.use_local_subchannel_pool", 1)]) as watching,
    ):
        watch = health_pb2_grpc.HealthStub(watching).Watch(health_pb2.HealthCheckRequest())
        next(watch)
        health_pb2_grpc.HealthStub(idle).Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
        for channel, event in ((idle, closed), (watching, watched_closed)):
            channel.subscribe(set_when_closed(event))

        assert closed.wait(WAIT_S)
        assert not watched_closed.is_set()
        answer = health_pb2_grpc.HealthStub(idle).Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()


def set_when_closed(event: threading.Event) -> Callable[[grpc.ChannelConnectivity], None]:
    """Return a callback that sets ``event`` when an open connection was closed."""
    was_ready = threading.Event()

    def changed(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            was_ready.set()
        elif was_ready.is_set():
            event.set()

    return changed
