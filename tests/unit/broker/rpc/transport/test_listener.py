"""Renewal of credentials for later connections; a renewal never adds new kinds."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from forebay.broker.core.access.certificates import Certificates
from forebay.broker.core.access.credentials import parse, token_credential
from forebay.broker.core.resources.connections import ConnectionLimits
from forebay.broker.rpc.transport.interceptor import StatusInterceptor
from forebay.broker.rpc.transport.listener import Listener
from forebay.broker.runtime.resources.connections import Connections
from tests.support.certificates import Authority, Pair

TOKENS = parse(token_credential("tests", "one", ["admin=*"]).line)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def certificates(pair: Pair, client_ca: Path | None = None) -> Certificates:
    return Certificates(
        pair.cert.read_bytes(), pair.key.read_bytes(), None if client_ca is None else client_ca.read_bytes()
    )


def connections() -> Connections:
    return Connections(ConnectionLimits(10, 10, 1), lambda: 0.0)


@asynccontextmanager
async def bound(listening: Listener) -> AsyncIterator[tuple[str, int]]:
    server = grpc.aio.server(interceptors=listening.interceptors(StatusInterceptor(connections())))
    port = listening.bind(server, "127.0.0.1:0")
    await server.start()
    try:
        yield "127.0.0.1", port
    finally:
        await server.stop(0)


def shown(place: tuple[str, int]) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(place, 10) as plain, context.wrap_socket(plain) as wrapped:
        found = wrapped.getpeercert(binary_form=True)
    assert found is not None
    return found


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


@pytest.mark.anyio
async def test_a_renewed_certificate_is_shown_to_the_next_connection(authority: Authority) -> None:
    old, new = authority.signed("old"), authority.signed("new")
    listening = Listener(certificates(old), None, lambda: 0.0)
    async with bound(listening) as place:
        before = shown(place)
        listening.renew(certificates(new), None)
        after = shown(place)

    assert (before, after) == (der(old), der(new))


@pytest.mark.anyio
async def test_a_plain_server_stays_plain(authority: Authority) -> None:
    listening = Listener(None, None, lambda: 0.0)
    async with bound(listening) as place:
        listening.renew(certificates(authority.signed("late")), TOKENS)
        with pytest.raises(ssl.SSLError):
            shown(place)


def test_a_caller_is_known_before_its_request_is_decoded_and_judged_by_what_was_decoded() -> None:
    reading = StatusInterceptor(connections())

    order = [type(one).__name__ for one in Listener(None, TOKENS, lambda: 0.0).interceptors(reading)]

    assert order == ["AccessGuard", "StatusInterceptor", "Authorizer"]


def test_grpc_is_given_certificates_once_for_each_renewal_and_not_for_each_connection(authority: Authority) -> None:
    first, second = certificates(authority.signed("first")), certificates(authority.signed("second"))
    listening = Listener(first, None, lambda: 0.0)
    one_port, other_port = listening.renewals(first), listening.renewals(first)

    before = [one_port() for _ in range(3)]
    listening.renew(first, None)
    read_again = one_port()
    listening.renew(second, None)
    after = [one_port() for _ in range(3)]

    assert before == [None, None, None]
    assert read_again is None
    assert [found is not None for found in after] == [True, False, False]
    assert other_port() is not None
