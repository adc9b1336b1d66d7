"""Rights over real gRPC: every principal does what its line grants, nothing else, and no longer than that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from forebay.broker.core.access.credentials import certificate_credential, token_credential
from forebay.broker.embedded import BrokerServer
from forebay.client import (
    AccessDenied,
    Client,
    ClientSettings,
    Record,
    ReplayedRecord,
    SinkNotFound,
    TlsSettings,
)
from forebay.client.errors import ForebayError, PositionStoreError
from forebay.client.positions.store import PositionStore, open_store
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import buffer_service_pb2_grpc as pb_grpc
from forebay.v1 import epoch_service_pb2 as epoch_pb
from forebay.v1 import epoch_service_pb2_grpc as epoch_grpc
from tests.support.certificates import Authority
from tests.support.refusals import failure

QUICK_S = 20.0


class File:
    """The broker's file of credentials; a token is the name of its principal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[str, str] = {}

    def grant(self, name: str, *rights: str) -> None:
        self._lines[name] = token_credential(name, name, rights).line
        self._write()

    def revoke(self, name: str) -> None:
        del self._lines[name]
        self._write()

    def _write(self) -> None:
        written = self.path.with_suffix(".new")
        written.write_text("\n".join(self._lines.values()) + "\n")
        written.replace(self.path)


@pytest.fixture
def file(tmp_path: Path) -> File:
    made = File(tmp_path / "tokens")
    made.grant("ops", "admin=*")
    made.grant("ingest", "publish=orders,events-*")
    made.grant("crm", "consume=orders")
    made.grant("audit", "replay=orders")
    made.grant("console", "view=*")
    made.grant("eu", "manage=eu-*")
    return made


@pytest.fixture
def broker(file: File) -> Iterator[BrokerServer]:
    with BrokerServer.in_memory(token_hashes_file=str(file.path)) as running:
        with client_of(running, "ops") as ops:
            for sink in ("orders", "events-1", "secret"):
                ops.sinks.create(sink)
                ops.publish(sink, [Record(b"first")])
        yield running


def client_of(broker: BrokerServer, name: str) -> Client:
    return Client(broker.endpoint, settings=ClientSettings(token=name))


def renew(broker: BrokerServer) -> None:
    """Read the file now, as SIGHUP does."""
    assert broker.loop is not None
    assert broker.serving is not None
    done = threading.Event()
    broker.loop.call_soon_threadsafe(broker.serving.renew)
    broker.loop.call_soon_threadsafe(done.set)
    assert done.wait(QUICK_S)


def published(client: Client, sink: str) -> None:
    with client.publisher(sink) as publisher:
        publisher.send(b"value").result(QUICK_S)


def consumed(client: Client, sink: str) -> None:
    with client.subscriber(sink) as deliveries:
        delivery = deliveries.take(QUICK_S)
        assert delivery is not None
        delivery.ack(wait=True)


def replayed(client: Client, sink: str) -> None:
    assert isinstance(next(client.replay(sink, partition=0)), ReplayedRecord)


ACTIONS: dict[str, Any] = {
    "publish": published,
    "publish a batch": lambda client, sink: client.publish(sink, [Record(b"value")]),
    "replay": replayed,
    "peek": lambda client, sink: client.peek(sink),
    "consume": consumed,
    "see": lambda client, sink: client.sinks.stats(sink),
    "pause": lambda client, sink: client.sinks.pause(sink),
    "purge": lambda client, sink: client.sinks.purge(sink),
}
GRANTED = {
    ("ingest", "orders"): {"publish", "publish a batch", "see"},
    ("ingest", "events-1"): {"publish", "publish a batch", "see"},
    ("ingest", "secret"): set[str](),
    ("crm", "orders"): {"consume", "see"},
    ("crm", "secret"): set[str](),
    ("audit", "orders"): {"replay", "peek", "see"},
    ("console", "orders"): {"see"},
    ("eu", "orders"): set[str](),
    ("ops", "secret"): {*ACTIONS},
}


@pytest.mark.parametrize(("name", "sink"), GRANTED)
def test_a_principal_does_what_its_line_grants_and_nothing_else(name: str, sink: str, broker: BrokerServer) -> None:
    done, denied = set(), []
    with client_of(broker, name) as client:
        for action, act in ACTIONS.items():
            try:
                act(client, sink)
                done.add(action)
            except AccessDenied as error:
                denied.append(error)

    assert done == GRANTED[name, sink]
    assert {error.reason for error in denied} <= {"PERMISSION_DENIED"}
    assert all((error.facts["principal"], error.facts["sink"]) == (name, sink) for error in denied)


def test_a_denied_principal_cannot_tell_whether_a_sink_exists(broker: BrokerServer) -> None:
    with client_of(broker, "crm") as crm, client_of(broker, "ops") as ops:
        with failure(Reason.PERMISSION_DENIED):
            crm.sinks.get("secret")
        with failure(Reason.PERMISSION_DENIED):
            crm.sinks.get("absent")
        with pytest.raises(SinkNotFound):
            ops.sinks.get("absent")


def test_a_list_of_sinks_holds_what_the_principal_may_view(broker: BrokerServer) -> None:
    with client_of(broker, "ingest") as ingest, client_of(broker, "console") as console:
        assert [sink.name for sink in ingest.sinks.list()] == ["events-1", "orders"]
        assert [sink.name for sink in console.sinks.list()] == ["events-1", "orders", "secret"]


def test_managing_ends_at_the_pattern(broker: BrokerServer) -> None:
    with client_of(broker, "eu") as eu:
        eu.sinks.create("eu-orders")
        eu.sinks.delete("eu-orders")
        with failure(Reason.PERMISSION_DENIED, match="'manage' to sink 'us-orders'"):
            eu.sinks.create("us-orders")


def test_a_switch_of_the_whole_broker_needs_the_right_to_every_sink(broker: BrokerServer) -> None:
    with client_of(broker, "eu") as eu, client_of(broker, "ops") as ops:
        eu.sinks.create("eu-orders")
        eu.realtime.set(False, sink="eu-orders")
        with failure(Reason.PERMISSION_DENIED, match="'manage' to sink '\\*'"):
            eu.realtime.set(False)
        assert ops.realtime.set(True).enabled


def test_a_commit_of_an_epoch_needs_the_right_to_each_of_its_sinks(broker: BrokerServer) -> None:
    request = epoch_pb.CommitEpochRequest(commits=[{"sink": "orders"}, {"sink": "secret"}])
    with grpc.insecure_channel(broker.endpoint) as channel:
        stub = epoch_grpc.EpochServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.CommitEpoch(request, metadata=[("authorization", "Bearer ingest")], timeout=QUICK_S)
        with pytest.raises(grpc.RpcError) as no_publisher:
            stub.TakeTicket(epoch_pb.TakeTicketRequest(), metadata=[("authorization", "Bearer crm")], timeout=QUICK_S)

    assert "does not have the right 'publish' to sink 'secret'" in str(refused.value.details())
    assert "does not have the right 'publish' to any sink" in str(no_publisher.value.details())


def test_a_revoked_token_ends_a_consumer_that_waits(broker: BrokerServer, file: File) -> None:
    ended: list[BaseException] = []
    begun = threading.Event()

    def consume() -> None:
        try:
            for delivery in subscriber:
                delivery.ack(wait=True)
                begun.set()
        except AccessDenied as error:
            ended.append(error)

    with client_of(broker, "crm") as crm:
        subscriber = crm.subscriber("orders")
        consumer = threading.Thread(target=consume)
        consumer.start()
        assert begun.wait(QUICK_S)

        file.revoke("crm")
        consumer.join(QUICK_S)

        assert not consumer.is_alive()
        assert isinstance(ended[0], ForebayError)
        assert ended[0].reason == "TOKEN_REFUSED"
        with failure(Reason.TOKEN_REFUSED):
            crm.sinks.stats("orders")


def test_a_revoked_right_ends_a_publisher_that_is_open(broker: BrokerServer, file: File) -> None:
    with client_of(broker, "ingest") as ingest:
        publisher = ingest.publisher("orders")
        publisher.send(b"value").result(QUICK_S)

        file.grant("ingest", "publish=other")
        renew(broker)

        with failure(Reason.PERMISSION_DENIED, match="'publish' to sink 'orders'"):
            publisher.send(b"value").result(QUICK_S)
        with failure(Reason.PERMISSION_DENIED):
            publisher.close()


def test_a_revoked_token_ends_a_replay_that_follows_and_others_continue(broker: BrokerServer, file: File) -> None:
    with client_of(broker, "audit") as audit, client_of(broker, "ops") as ops:
        follower = iter(audit.replay("orders", partition=0, follow=True))
        other = iter(ops.replay("orders", partition=0, follow=True))
        assert next(follower).offset == next(other).offset == 0  # type: ignore[union-attr]

        file.revoke("audit")

        with pytest.raises(AccessDenied):
            next(follower)
        ops.publish("orders", [Record(b"second")])
        assert next(other).offset == 1  # type: ignore[union-attr]


def test_a_client_certificate_is_a_principal(tmp_path: Path, file: File) -> None:
    authority = Authority(tmp_path / "authority")
    server, edge, stranger = authority.signed("broker"), authority.signed("edge-1"), authority.signed("edge-2")
    file.path.write_text(certificate_credential("edge", "edge-1", ["manage=plant", "publish=plant"]).line)

    def settings(pair: Any) -> ClientSettings:
        return ClientSettings(
            tls=TlsSettings(ca_file=str(authority.cert), cert_file=str(pair.cert), key_file=str(pair.key))
        )

    with BrokerServer.in_memory(
        token_hashes_file=str(file.path),
        tls_server_cert_file=str(server.cert),
        tls_server_key_file=str(server.key),
        tls_client_ca_file=str(authority.cert),
    ) as running:
        with Client(running.endpoint, settings=settings(edge)) as client:
            client.sinks.create("plant")
            published(client, "plant")
            with failure(Reason.PERMISSION_DENIED, match="principal 'edge'"):
                client.peek("plant")
        with Client(running.endpoint, settings=settings(stranger)) as client, failure(Reason.TOKEN_REFUSED):
            client.sinks.list()


def test_a_principal_over_its_rate_is_slowed_and_others_are_not(broker: BrokerServer, file: File) -> None:
    file.grant("slow", "publish=orders", "bytes_per_s=1000")
    renew(broker)
    with client_of(broker, "ops") as ops:
        with client_of(broker, "slow") as slow:
            slow.publish("orders", [Record(b"x" * 10_000)])
            with failure(Reason.RATE_LIMITED, match="bytes_per_s is 1000") as refused:
                slow.publish("orders", [Record(b"x")])
        assert refused.value.retry_after_s is not None
        assert refused.value.retry_after_s > 2
        ops.publish("orders", [Record(b"x" * 10_000)])
        ops.publish("orders", [Record(b"x")])


@pytest.mark.parametrize(
    ("token", "code"),
    [("crm", grpc.StatusCode.INVALID_ARGUMENT), ("audit", grpc.StatusCode.PERMISSION_DENIED)],
    ids=["with-the-right-to-some-sink", "without-it"],
)
def test_a_stream_whose_first_message_names_no_sink_ends_there(
    broker: BrokerServer, token: str, code: grpc.StatusCode
) -> None:
    opening = pb.DeliverOpen(sink="secret", consumer_id="c1")
    with grpc.insecure_channel(broker.endpoint) as channel:
        stub = pb_grpc.BufferServiceStub(channel)
        calls = stub.Deliver(
            iter([pb.DeliverRequest(), pb.DeliverRequest(open=opening)]),
            metadata=[("authorization", f"Bearer {token}")],
            timeout=QUICK_S,
        )
        with pytest.raises(grpc.RpcError) as refused:
            next(calls)

    assert refused.value.code() is code


def test_a_position_is_saved_with_the_right_to_replay_its_sink_and_listed_with_the_right_to_view_it(
    broker: BrokerServer,
) -> None:
    def store_of(client: Client) -> PositionStore:
        return open_store("broker:", channels=client._channels)

    with client_of(broker, "ops") as ops, client_of(broker, "audit") as audit:
        for client, sink in ((audit, "orders"), (ops, "secret")):
            store_of(client).compare_and_write(f"default/billing/{sink}/0", b"1", None)

        with pytest.raises(PositionStoreError, match="replay"):
            store_of(audit).compare_and_write("default/billing/secret/0", b"2", None)
        assert list(store_of(ops).list("")) == ["default/billing/orders/0", "default/billing/secret/0"]
        assert list(store_of(audit).list("")) == ["default/billing/orders/0"]
