from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import EngineRefused, EngineUntrusted
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress
from forebay.broker.storage.replication.engines.kafka.connection.handshake import tls_problem
from tests.support.certificates import Authority, Pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def node() -> Iterator[Callable[[Pair | None, Authority | None], str]]:
    """Start a node that ends connections which are not those that it wants; returns its address."""
    with ExitStack() as started:
        yield lambda pair, asks: started.enter_context(serving(pair, asks))


@contextmanager
def serving(pair: Pair | None, asks: Authority | None) -> Iterator[str]:
    """Take connections with a certificate, of clients that have one of ``asks``; without TLS where there is none."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # there the lack of a certificate ends the handshake
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    if asks is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(asks.cert)

    def serve() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(1) if pair is None else context.wrap_socket(connection, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


Node = Callable[[Pair | None, Authority | None], str]


def trusting(authority: Authority, **more: str) -> Mapping[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.cert), **more}


def said_of(servers: str, settings: Mapping[str, str], said: str = "") -> str | None:
    problem = tls_problem(KafkaAddress(servers, "journal", settings), said)
    return None if problem is None else f"{type(problem).__name__}: {problem}"


def test_a_certificate_that_is_accepted_is_no_problem(authority: Authority, node: Node) -> None:
    assert said_of(node(authority.signed("node"), None), trusting(authority)) is None


def test_a_certificate_of_an_unknown_authority_needs_the_file_of_it(
    authority: Authority, node: Node, tmp_path: Path
) -> None:
    server = node(authority.signed("node"), None)

    problem = tls_problem(KafkaAddress(server, "journal", trusting(Authority(tmp_path))), "")

    assert isinstance(problem, EngineUntrusted)
    assert str(problem) == (
        f"kafka://{server}/journal: the certificate of {server} is not accepted: unable to get local issuer "
        "certificate; name the file of the authority that signed it with ssl.ca.location"
    )


def test_a_certificate_of_another_host_needs_another_address_unless_names_are_not_verified(
    authority: Authority, node: Node
) -> None:
    server = node(authority.signed("other", alternatives="DNS:kafka.example"), None)

    assert "name each node as its certificate does" in (said_of(server, trusting(authority)) or "")
    unverified = {"ssl.endpoint.identification.algorithm": "none"}
    assert said_of(server, {**trusting(authority), **unverified}) is None


def test_a_certificate_that_is_not_verified_is_no_problem(authority: Authority, node: Node) -> None:
    settings = {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": "false"}

    assert said_of(node(authority.signed("node"), None), settings) is None


def test_an_authority_in_the_settings_themselves_is_trusted(authority: Authority, node: Node) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.pem": authority.cert.read_text()}

    assert said_of(node(authority.signed("node"), None), settings) is None


@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl"])
def test_a_node_without_tls_is_named(authority: Authority, node: Node, protocol: str) -> None:
    server = node(None, None)

    problem = tls_problem(KafkaAddress(server, "journal", {**trusting(authority), "security.protocol": protocol}), "")

    assert isinstance(problem, EngineRefused)
    assert f"{server} has no TLS, and security.protocol is {protocol.upper()}: set PLAINTEXT" in str(problem)


@pytest.mark.parametrize("settings", [{}, {"security.protocol": "sasl_plaintext"}])
def test_a_node_that_demands_tls_is_named(authority: Authority, node: Node, settings: Mapping[str, str]) -> None:
    server = node(authority.signed("node"), None)

    problem = tls_problem(KafkaAddress(server, "journal", settings), "")

    assert isinstance(problem, EngineRefused)
    assert f"{server} demands TLS, and security.protocol is" in str(problem)


def test_a_node_without_tls_that_is_asked_without_it_is_no_problem(node: Node) -> None:
    assert said_of(node(None, None), {}) is None


def test_a_node_that_wants_a_certificate_of_the_client_speaks_tls(authority: Authority, node: Node) -> None:
    server = node(authority.signed("node"), authority)

    assert "demands TLS" in (said_of(server, {}) or "")
    assert said_of(server, trusting(authority)) is None


def test_the_nodes_of_which_the_client_has_spoken_are_asked_first(
    authority: Authority, node: Node, tmp_path: Path
) -> None:
    good, wrong = node(authority.signed("node"), None), node(Authority(tmp_path).signed("node"), None)
    assert said_of(good, trusting(authority)) is None

    said = said_of(good, trusting(authority), f"sasl_ssl://{wrong}/2: SSL handshake failed: certificate verify failed")

    assert f"the certificate of {wrong} is not accepted" in (said or "")


def test_nodes_that_are_not_reached_and_files_that_are_no_certificates_explain_nothing(
    authority: Authority, node: Node, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")

    assert said_of("127.0.0.1:1", trusting(authority)) is None
    assert said_of(f"127.0.0.1:1,{node(None, None)}", trusting(authority)) is not None
    assert said_of(node(None, None), {"security.protocol": "SSL", "ssl.ca.location": str(wrong)}) is None
