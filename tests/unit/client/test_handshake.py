"""What is certain about the other end is said; for everything else the broker is only unavailable."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.client import ClientSettings, TlsSettings
from holdfast.client.handshake import problem
from tests.certificates import Authority, Pair

PLAIN = ClientSettings()
SETTINGS_FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.signed("broker")


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Take connections one after the other and do ``serve`` with each."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # the other end does not trust it, or has seen enough
                serve(connection)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        socket.create_connection(listener.getsockname()).close()
        thread.join()
        listener.close()


def talking_plainly(connection: socket.socket) -> None:
    connection.sendall(SETTINGS_FRAME)
    connection.recv(64)


def talking_tls(pair: Pair, *, then: bytes) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            if then:
                wrapped.sendall(then)
                wrapped.recv(64)

    return serve


def closing(connection: socket.socket) -> None:
    connection.close()


def trusting(authority: Authority, **more: str) -> ClientSettings:
    return ClientSettings(tls=TlsSettings(str(authority.cert), **more))


def test_two_ends_that_understand_each_other_have_no_problem(authority: Authority, pair: Pair) -> None:
    with listening(talking_plainly) as endpoint:
        assert problem(endpoint, PLAIN) == ""
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        assert problem(endpoint, trusting(authority)) == ""


def test_tls_at_one_end_only_is_told(authority: Authority, pair: Pair) -> None:
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        assert "the broker speaks TLS and this client does not" in problem(endpoint, PLAIN)
    with listening(talking_plainly) as endpoint:
        assert "this client speaks TLS and the broker does not" in problem(endpoint, trusting(authority))


def test_a_certificate_that_is_not_trusted_is_told_with_its_reason(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        assert "unable to get local issuer" in problem(endpoint, trusting(Authority(tmp_path)))
        assert "Hostname mismatch" in problem(endpoint, trusting(authority, server_name="elsewhere"))


def test_a_broker_that_ends_a_good_handshake_wants_another_certificate(authority: Authority, pair: Pair) -> None:
    own = authority.signed("own")
    with listening(talking_tls(pair, then=b"")) as endpoint:
        none = problem(endpoint, trusting(authority))
        other = problem(endpoint, trusting(authority, cert_file=str(own.cert), key_file=str(own.key)))

    assert "this client shows none" in none
    assert "does not take" in other


def test_a_broker_that_is_gone_or_is_about_to_be_is_only_unavailable(authority: Authority) -> None:
    with listening(closing) as endpoint:
        assert problem(endpoint, PLAIN) == ""
        assert problem(endpoint, trusting(authority)) == ""
    for settings in (PLAIN, trusting(authority)):
        assert problem(endpoint, settings) == ""


def test_one_that_says_nothing_is_not_waited_for_long(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"

        assert problem(endpoint, PLAIN) == ""
        assert problem(endpoint, trusting(authority)) == ""


@pytest.mark.parametrize("endpoint", ["unix:/run/broker", "dns:///broker:7461", "broker", ""])
def test_what_is_no_host_and_port_is_left_to_grpc(endpoint: str) -> None:
    assert problem(endpoint, PLAIN) == ""
