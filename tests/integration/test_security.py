"""TLS and tokens over real gRPC: clients that are accepted, and the immediate errors of all others."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import (
    Client,
    ClientSettings,
    CredentialsUnusable,
    Record,
    RetryPolicy,
    TlsSettings,
)
from forebay.client.errors import AccessDenied, ForebayError
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import until
from tests.support.certificates import Authority, Pair
from tests.support.clients.both import RUNNERS, with_asyncio
from tests.support.processes.broker import free_port
from tests.support.refusals import failure

TOKEN = "a-token-of-this-test"
QUICK_S = 5.0
"""Far below the time for which a client would continue to retry."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.signed("broker")


@pytest.fixture(scope="module")
def own(authority: Authority) -> Pair:
    return authority.signed("client")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture
def hashes(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# of this test\n{token_credential('tests', TOKEN, ['admin=*']).line}\n")
    return path


def encrypted(server: Pair, **more: Any) -> dict[str, Any]:
    files = {"tls_server_cert_file": server.cert, "tls_server_key_file": server.key, **more}
    return {name: str(value) for name, value in files.items()}


def trusting(authority: Authority, own: Pair | None = None, *, token: str = "", name: str = "") -> ClientSettings:
    pair = {} if own is None else {"cert_file": str(own.cert), "key_file": str(own.key)}
    return ClientSettings(tls=TlsSettings(ca_file=str(authority.cert), server_name=name, **pair), token=token)


def used(endpoint: str, settings: ClientSettings) -> list[bytes]:
    """Use every kind of call of both clients; returns what each published."""
    published: list[list[bytes]] = []

    async def scenario(client: Any) -> None:
        sink = f"orders-{len(published)}"
        await client.sinks.create(sink)
        await client.publish(sink, [Record(b"single")])
        async with await client.publisher(sink) as publisher:
            await (await publisher.send(b"streamed"))
        assert (await anext(client.sinks.watch(sink))).records == 2
        published.append([record.value async for record in client.replay(sink, partition=0)])
        async with client.subscriber(sink) as deliveries:
            await (await anext(deliveries)).ack(wait=True)

    for runner in RUNNERS.values():
        runner(endpoint, scenario, settings=settings)
    assert published[0] == published[1]
    return published[0]


def test_over_tls_everything_works_that_works_without(authority: Authority, server: Pair) -> None:
    with BrokerServer.in_memory(**encrypted(server)) as broker:
        assert used(broker.endpoint, trusting(authority)) == [b"single", b"streamed"]


def test_a_broker_that_demands_certificates_takes_those_of_its_authority(
    authority: Authority, server: Pair, own: Pair
) -> None:
    with BrokerServer.in_memory(**encrypted(server, tls_client_ca_file=authority.cert)) as broker:
        assert used(broker.endpoint, trusting(authority, own)) == [b"single", b"streamed"]


def test_a_token_that_the_broker_knows_opens_every_kind_of_call(
    authority: Authority, server: Pair, hashes: Path
) -> None:
    with BrokerServer.in_memory(**encrypted(server, token_hashes_file=hashes)) as broker:
        assert used(broker.endpoint, trusting(authority, token=TOKEN)) == [b"single", b"streamed"]
    with BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker:
        assert used(broker.endpoint, ClientSettings(token=TOKEN)) == [b"single", b"streamed"]


CALLS: dict[str, Callable[[Client], object]] = {
    "unary": lambda client: client.sinks.create("orders"),
    "not repeated": lambda client: client.publish("orders", [Record(b"value")]),
    "publish stream": lambda client: client.publisher("orders"),
    "deliver stream": lambda client: client.subscriber("orders").take(QUICK_S),
    "replay": lambda client: next(client.replay("orders", partition=0)),
    "follow": lambda client: next(client.replay("orders", partition=0, follow=True)),
    "watch": lambda client: next(client.sinks.watch("orders")),
    "commit": lambda client: client.epochs.take_ticket("orders"),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Callable[[Client], object]:
    """One kind of call after the other."""
    return CALLS[request.param]


def refused(endpoint: str, settings: ClientSettings, call: Callable[[Client], object], reason: Reason) -> ForebayError:
    begun = time.monotonic()
    with failure(reason) as caught, Client(endpoint, settings=settings) as client:
        call(client)
    assert time.monotonic() - begun < QUICK_S
    return caught.value


@pytest.mark.parametrize(("token", "said"), [("", "no token"), ("a-wrong-token", "unknown token")])
def test_without_a_known_token_every_kind_of_call_is_refused_at_once(
    token: str, said: str, hashes: Path, call: Callable[[Client], object]
) -> None:
    with BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker:
        error = refused(broker.endpoint, ClientSettings(token=token), call, Reason.TOKEN_REFUSED)

    assert said in str(error)
    assert isinstance(error, AccessDenied)
    assert "a-wrong-token" not in f"{error!r}{error.facts}"


def test_a_plain_client_of_a_broker_with_tls_gets_an_error_at_once(
    server: Pair, call: Callable[[Client], object]
) -> None:
    with BrokerServer.in_memory(**encrypted(server)) as broker:
        error = refused(broker.endpoint, ClientSettings(), call, Reason.HANDSHAKE_FAILED)

    assert "the broker requires TLS and this client does not use it" in str(error)


def test_a_wrong_certificate_of_one_broker_is_no_error_of_calls_to_an_unreachable_one(server: Pair) -> None:
    away = f"127.0.0.1:{free_port()}"
    with (
        BrokerServer.in_memory(**encrypted(server)) as broker,
        Client([away, broker.endpoint], settings=ClientSettings(retry=RetryPolicy(tries_max=2))) as client,
    ):
        sinks = [f"orders-{number}" for number in range(64)]
        there = {client.endpoint_of(sink): sink for sink in sinks}

        with failure(Reason.UNREACHABLE):
            client.sinks.get(there[away])
        with failure(Reason.HANDSHAKE_FAILED):
            client.sinks.get(there[broker.endpoint])


def test_a_client_with_tls_of_a_plain_broker_gets_an_error_at_once(
    authority: Authority, call: Callable[[Client], object]
) -> None:
    with BrokerServer.in_memory() as broker:
        error = refused(broker.endpoint, trusting(authority), call, Reason.HANDSHAKE_FAILED)

    assert "this client uses TLS and the broker does not" in str(error)


def test_a_broker_of_an_authority_that_is_not_trusted_is_refused(
    stranger: Authority, server: Pair, call: Callable[[Client], object]
) -> None:
    with BrokerServer.in_memory(**encrypted(server)) as broker:
        error = refused(broker.endpoint, trusting(stranger), call, Reason.HANDSHAKE_FAILED)

    assert "the broker's certificate is not trusted" in str(error)


def test_the_asyncio_client_says_that_a_broker_is_not_trusted(stranger: Authority, server: Pair) -> None:
    async def scenario(client: Any) -> None:
        for call in (client.info(), client.publisher("orders", delivery_timeout_s=10), client.subscriber("s").take(10)):
            with failure(Reason.HANDSHAKE_FAILED, match="is not trusted"):
                await call

    with BrokerServer.in_memory(**encrypted(server)) as broker:
        with_asyncio(broker.endpoint, scenario, settings=trusting(stranger))


def test_a_certificate_for_another_name_is_refused_until_the_name_is_said(authority: Authority) -> None:
    elsewhere = authority.signed("elsewhere", alternatives="DNS:broker.example")
    with BrokerServer.in_memory(**encrypted(elsewhere)) as broker:
        error = refused(broker.endpoint, trusting(authority), Client.info, Reason.HANDSHAKE_FAILED)
        found = used(broker.endpoint, trusting(authority, name="broker.example"))

    assert "tls_server_name" in str(error)
    assert found == [b"single", b"streamed"]


def test_a_client_without_the_demanded_certificate_gets_an_error_that_says_so(
    authority: Authority, stranger: Authority, server: Pair, call: Callable[[Client], object]
) -> None:
    with BrokerServer.in_memory(**encrypted(server, tls_client_ca_file=authority.cert)) as broker:
        none = refused(broker.endpoint, trusting(authority), call, Reason.HANDSHAKE_FAILED)
        other = refused(broker.endpoint, trusting(authority, stranger.signed("client")), call, Reason.HANDSHAKE_FAILED)

    assert "this client has none" in str(none)
    assert "does not accept" in str(other)


def test_a_broker_that_is_unreachable_is_waited_for_with_tls_too(authority: Authority, server: Pair) -> None:
    store = MemoryStore()
    with (
        BrokerServer.in_memory(store, **encrypted(server)) as broker,
        Client(broker.endpoint, settings=trusting(authority)) as client,
    ):
        client.sinks.create("orders")
        publisher = client.publisher("orders", delivery_timeout_s=30)
        broker.stop()
        future = publisher.send(b"while it was away")
        with BrokerServer.in_memory(store.crash(), **encrypted(server, listen=broker.endpoint)):
            assert future.result(30).first_offset == 0
            publisher.close()


def test_health_needs_no_token_and_reflection_does(hashes: Path) -> None:
    with (
        BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker,
        grpc.insecure_channel(broker.endpoint) as channel,
    ):
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        with pytest.raises(grpc.RpcError) as refusal:
            next(stub.ServerReflectionInfo(iter(asked), timeout=10))
        bearer = [("authorization", f"Bearer {TOKEN}")]
        listed = next(stub.ServerReflectionInfo(iter(asked), timeout=10, metadata=bearer))

    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert listed.list_services_response.service


def test_certificates_and_tokens_are_renewed_while_it_serves(
    authority: Authority, stranger: Authority, tmp_path: Path, hashes: Path
) -> None:
    pair, new = authority.signed("old"), stranger.signed("new")
    with BrokerServer.in_memory(**encrypted(pair, token_hashes_file=hashes)) as broker:
        before = Client(broker.endpoint, settings=trusting(authority, token=TOKEN))
        before.info()
        pair.cert.write_bytes(new.cert.read_bytes())
        pair.key.write_bytes(new.key.read_bytes())
        hashes.write_text(f"{token_credential('tests', 'another', ['admin=*']).line}\n")
        renew(broker)

        with failure(Reason.TOKEN_REFUSED), before:  # its connection stays valid, its token does not
            before.info()
        with Client(broker.endpoint, settings=trusting(stranger, token="another")) as after:
            assert after.info().version
        refused(broker.endpoint, trusting(authority, token="another"), Client.info, Reason.HANDSHAKE_FAILED)


def test_the_console_shows_a_renewed_certificate_to_new_connections(
    authority: Authority, stranger: Authority, hashes: Path
) -> None:
    pair, new = authority.signed("old"), stranger.signed("new")
    settings = encrypted(pair, token_hashes_file=hashes, console_listen="127.0.0.1:0")
    with BrokerServer.in_memory(**settings) as broker:
        assert broker.serving is not None
        url = urlsplit(broker.serving.console_url)
        place = ("127.0.0.1", url.port or 0)
        before = ssl.get_server_certificate(place, ca_certs=str(authority.cert))
        pair.cert.write_bytes(new.cert.read_bytes())
        pair.key.write_bytes(new.key.read_bytes())
        renew(broker)

        after = ssl.get_server_certificate(place, ca_certs=str(stranger.cert))

    assert before != after
    assert after.split() == new.cert.read_text().split()


def test_a_token_that_is_revoked_while_the_broker_starts_is_refused(
    hashes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked(store: Store) -> Recovered:
        hashes.write_text(f"{token_credential('tests', 'another', ['admin=*']).line}\n")
        return recover(store)

    monkeypatch.setattr("forebay.broker.server.recover", revoked)
    with (
        BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker,
        Client(broker.endpoint, settings=ClientSettings(token="another")) as client,
    ):
        until(lambda: is_let_in(client))


def is_let_in(client: Client) -> bool:
    """Return whether its token is accepted."""
    try:
        client.info()
    except AccessDenied:
        return False
    return True


def test_a_reload_of_a_malformed_token_file_keeps_the_tokens_in_force(
    hashes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker:
        hashes.write_text("tests:" + TOKEN)
        renew(broker)
        with Client(broker.endpoint, settings=ClientSettings(token=TOKEN)) as client:
            assert client.info().version

    assert "line 1 does not begin with NAME:sha256:HEX" in caplog.text
    assert TOKEN not in caplog.text


def renew(broker: BrokerServer) -> None:
    """As SIGHUP does, which only a process of its own can be sent."""
    import asyncio

    async def on_the_loop() -> None:
        assert broker.serving is not None
        broker.serving.renew()

    assert broker.loop is not None
    asyncio.run_coroutine_threadsafe(on_the_loop(), broker.loop).result(10)


def test_a_token_never_goes_unencrypted_to_another_machine_unasked() -> None:
    with (
        Client("192.0.2.1:7461", settings=ClientSettings(token=TOKEN)) as client,
        pytest.raises(CredentialsUnusable, match=r"unencrypted to 192\.0\.2\.1:7461") as caught,
    ):
        client.info()

    assert TOKEN not in str(caught.value)


def test_a_token_file_is_read_with_each_call(hashes: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("not-yet\n")
    with (
        BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker,
        Client(broker.endpoint, settings=ClientSettings(token_file=str(file))) as client,
    ):
        with failure(Reason.TOKEN_REFUSED):
            client.info()
        file.write_text(f"{TOKEN}\n")
        assert client.info().version


def test_no_refusal_of_the_broker_is_logged_with_its_token(hashes: Path, caplog: pytest.LogCaptureFixture) -> None:
    with BrokerServer.in_memory(token_hashes_file=str(hashes)) as broker:
        refused(broker.endpoint, ClientSettings(token="a-wrong-token"), Client.info, Reason.TOKEN_REFUSED)

    assert "refused reason=TOKEN_REFUSED principal='unknown'" in caplog.text
    assert "a-wrong-token" not in caplog.text


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test sets is set."""
    for name in ("FOREBAY_TOKEN", "FOREBAY_TLS_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
