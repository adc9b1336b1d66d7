"""Addresses of object stores, and what their requests and errors have."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from forebay.broker.storage.object_stores import CONTENT_UNSIGNED, S3_ENDPOINTS, AddressInvalid, open_objects, reason
from tests.support.certificates import Authority


class Answering(BaseHTTPRequestHandler):
    """Accepts every upload."""

    protocol_version = "HTTP/1.1"
    hashes: list[str]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.hashes.append(self.headers["x-amz-content-sha256"])
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-1")
    for name in S3_ENDPOINTS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def serving() -> Iterator[Callable[[ssl.SSLContext | None], tuple[int, list[str]]]]:
    """Start servers, which give their port and the hashes of contents that they were sent."""
    servers: list[tuple[HTTPServer, threading.Thread]] = []

    def start(context: ssl.SSLContext | None) -> tuple[int, list[str]]:
        hashes: list[str] = []
        server = HTTPServer(("127.0.0.1", 0), type("Handler", (Answering,), {"hashes": hashes}))
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server.server_port, hashes

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def context_of(authority: Authority, **names: str) -> ssl.SSLContext:
    pair = authority.signed("server", **names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def upload(address: str) -> None:
    objects, _ = open_objects(address, timeout_s=5.0, retries_max=0)
    obstore.put(objects, "a", b"note", use_multipart=False)


def test_an_upload_without_tls_is_signed_with_the_hash_of_its_content(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
) -> None:
    port, hashes = serving(None)

    upload(f"s3://bucket/a?endpoint=http://127.0.0.1:{port}")

    assert [len(found) for found in hashes] == [64]


def test_an_upload_over_tls_is_signed_without_its_content(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    port, hashes = serving(context_of(authority))

    upload(f"s3://bucket/a?endpoint=https://127.0.0.1:{port}")

    assert hashes == ["UNSIGNED-PAYLOAD"]


def test_an_operator_has_the_content_signed_over_tls_too(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    monkeypatch.setenv(CONTENT_UNSIGNED, "false")
    port, hashes = serving(context_of(authority))

    upload(f"s3://bucket/a?endpoint=https://127.0.0.1:{port}")

    assert [len(found) for found in hashes] == [64]


@pytest.mark.parametrize("name", S3_ENDPOINTS)
def test_an_endpoint_of_the_environment_counts_as_one_of_the_address(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, hashes = serving(None)
    monkeypatch.setenv(name, f"http://127.0.0.1:{port}")

    upload("s3://bucket/a")

    assert [len(found) for found in hashes] == [64]


@pytest.mark.parametrize("name", S3_ENDPOINTS)
def test_an_endpoint_of_the_address_counts_before_those_of_the_environment(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, hashes = serving(None)
    monkeypatch.setenv(name, "https://127.0.0.1:1")

    upload(f"s3://bucket/a?endpoint=HTTP://127.0.0.1:{port}")

    assert [len(found) for found in hashes] == [64]


def test_a_certificate_of_another_authority_is_named_as_the_cause(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "other").cert))
    port, hashes = serving(context_of(authority))

    with pytest.raises(BaseError) as refused:
        upload(f"s3://bucket/a?endpoint=https://127.0.0.1:{port}")

    assert "the certificate is not accepted (UnknownIssuer; SSL_CERT_FILE names trusted authorities)" in reason(
        refused.value
    )
    assert hashes == []


def test_a_certificate_of_another_host_is_named_as_the_cause(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    port, _ = serving(context_of(authority, alternatives="DNS:other.example"))

    with pytest.raises(BaseError) as refused:
        upload(f"s3://bucket/a?endpoint=https://127.0.0.1:{port}")

    assert "the certificate is not accepted (NotValidForNameContext)" in reason(refused.value)


def test_a_certificate_that_is_none_of_a_server_is_named_as_the_cause(
    serving: Callable[[ssl.SSLContext | None], tuple[int, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    own = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(own.cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.cert.with_suffix(".key"))
    port, _ = serving(context)

    with pytest.raises(BaseError) as refused:
        upload(f"s3://bucket/a?endpoint=https://127.0.0.1:{port}")

    assert "the certificate is not accepted (CaUsedAsEndEntity)" in reason(refused.value)


@pytest.mark.parametrize(
    ("endpoint", "cause"),
    [("http://127.0.0.1:1", "Connection refused"), ("http://bucket.invalid:1", "failed to lookup address information")],
)
def test_a_service_that_is_not_reachable_is_named_with_the_cause_in_one_line(endpoint: str, cause: str) -> None:
    with pytest.raises(BaseError) as refused:
        upload(f"s3://bucket/a?endpoint={endpoint}")

    assert f"error sending request: {cause}" in reason(refused.value)
    assert "\n" not in reason(refused.value)


def test_an_error_with_an_answer_is_its_first_line() -> None:
    assert reason(ValueError('Generic error: 403\nDebug source: Os { message: "x" }')) == "Generic error: 403"


@pytest.mark.parametrize("text", ["s3://user@bucket/a", "s3:///a", "s3://bucket/a?user=1"])
def test_an_address_with_credentials_without_a_bucket_or_with_an_unknown_option_is_refused(text: str) -> None:
    with pytest.raises(AddressInvalid):
        open_objects(text)
