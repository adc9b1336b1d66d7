"""Findings that are certain are reported; otherwise the broker is only unavailable."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forebay.client import ClientSettings, TlsSettings
from forebay.client.transport.handshake import FINAL, Finding, probe, problem
from tests.support.certificates import Authority, Pair

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


def talking_tls(pair: Pair, *, then: bytes, demanding: Authority | None = None) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if demanding is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(demanding.cert)

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


def test_tls_at_one_end_only_is_reported(authority: Authority, pair: Pair) -> None:
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        assert "the broker requires TLS and this client does not use it" in problem(endpoint, PLAIN)
    with listening(talking_plainly) as endpoint:
        assert "this client uses TLS and the broker does not" in problem(endpoint, trusting(authority))


def test_a_certificate_that_is_not_trusted_is_reported_with_its_reason(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        assert "unable to get local issuer" in problem(endpoint, trusting(Authority(tmp_path)))
        assert "Hostname mismatch" in problem(endpoint, trusting(authority, server_name="elsewhere"))


def test_a_broker_that_demands_a_certificate_is_distinguished_from_one_that_closes(
    authority: Authority, pair: Pair
) -> None:
    own = authority.signed("own")
    with listening(talking_tls(pair, then=SETTINGS_FRAME, demanding=authority)) as endpoint:
        assert "this client has none" in problem(endpoint, trusting(authority))
    other = Authority(own.cert.parent / "other").signed("stranger")
    with listening(talking_tls(pair, then=SETTINGS_FRAME, demanding=authority)) as endpoint:
        shown = trusting(authority, cert_file=str(other.cert), key_file=str(other.key))
        assert "does not accept" in problem(endpoint, shown)
        shown = trusting(authority, cert_file=str(own.cert), key_file=str(own.key))
        assert problem(endpoint, shown) == ""


def test_a_close_after_a_complete_handshake_proves_nothing(authority: Authority, pair: Pair) -> None:
    own = authority.signed("own")
    for settings in (
        trusting(authority),
        trusting(authority, cert_file=str(own.cert), key_file=str(own.key)),
    ):
        with listening(talking_tls(pair, then=b"")) as endpoint:
            assert probe(endpoint, settings).finding is Finding.CLOSED
            assert problem(endpoint, settings) == ""


def test_a_relay_that_takes_a_certificate_and_has_no_broker_proves_nothing(authority: Authority, pair: Pair) -> None:
    own = authority.signed("own")
    settings = trusting(authority, cert_file=str(own.cert), key_file=str(own.key))
    with listening(talking_tls(pair, then=b"", demanding=authority)) as endpoint:
        assert probe(endpoint, settings).finding is Finding.CLOSED


def test_every_finding_is_final_or_retried_and_the_table_is_complete() -> None:
    assert set(FINAL) == set(Finding)
    assert {finding for finding, is_final in FINAL.items() if not is_final} == {Finding.NOTHING, Finding.CLOSED}


@pytest.mark.parametrize("endpoint", ["127.0.0.1:99999", "a..b:7461", f"{'x' * 64}.de:7461", "127.0.0.1:\u0663"])
def test_a_place_that_cannot_be_is_no_finding_and_no_error(endpoint: str, authority: Authority) -> None:
    assert probe(endpoint, PLAIN).finding is Finding.NOTHING
    assert probe(endpoint, trusting(authority)).finding is Finding.NOTHING


def test_files_of_our_own_that_are_being_replaced_are_no_finding_and_no_error(pair: Pair, tmp_path: Path) -> None:
    with listening(talking_tls(pair, then=SETTINGS_FRAME)) as endpoint:
        settings = ClientSettings(tls=TlsSettings(str(tmp_path / "missing.pem")))

        assert probe(endpoint, settings).finding is Finding.NOTHING


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
def test_an_endpoint_that_is_no_host_and_port_is_left_to_grpc(endpoint: str) -> None:
    assert problem(endpoint, PLAIN) == ""
