"""The HTTP target against a real server."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from threading import Event, Thread

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from holdfast.deliver import Batch, Delivered, InvalidOption, Reject, Retry, TargetContext
from holdfast.deliver.http import HttpTarget
from holdfast.deliver.http_settings import Format, HttpSettings
from tests.unit.deliver.memory_source import MemoryRecord, records
from tests.unit.deliver.scripted_server import Answer, Request, serving

CONTEXT = TargetContext("orders", "default", 4)
NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
BATCH = Batch(
    "orders", "1f2e-3d", 2, (MemoryRecord(5, b'{"a": 1}'), MemoryRecord(6, b"text"), MemoryRecord(7, b"\xff"))
)


@contextmanager
def opened(settings: HttpSettings) -> Iterator[HttpTarget]:
    """Open a target and close it."""
    target = HttpTarget(settings, now=lambda: NOW)
    target.open(CONTEXT)
    try:
        yield target
    finally:
        target.close()


def test_ndjson_holds_a_batch_one_value_a_line_under_one_key() -> None:
    with serving() as server, opened(HttpSettings(url=server.url)) as target:
        assert target.send(BATCH) == Delivered()

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/records")
    assert request.body == b'{"a": 1}\n"text"\n"/w=="\n'
    expected = {
        "Content-Type": "application/x-ndjson",
        "Idempotency-Key": "1f2e-3d-2-5-7",
        "Holdfast-Sink": "orders",
        "Holdfast-Incarnation": "1f2e-3d",
        "Holdfast-Partition": "2",
        "Holdfast-First-Offset": "5",
        "Holdfast-Last-Offset": "7",
    }
    assert {name: request.headers[name] for name in expected} == expected


def test_ndjson_in_envelopes_carries_a_key_per_record() -> None:
    with serving() as server, opened(HttpSettings(url=server.url, envelope=True)) as target:
        target.send(BATCH)

    lines = [json.loads(line) for line in server.requests[0].body.splitlines()]
    assert [(line["key"], line["encoding"], line["value"]) for line in lines] == [
        ("1f2e-3d-2-5", "json", {"a": 1}),
        ("1f2e-3d-2-6", "text", "text"),
        ("1f2e-3d-2-7", "base64", "/w=="),
    ]


def test_a_json_array_holds_a_batch() -> None:
    with serving() as server, opened(HttpSettings(url=server.url, format=Format.JSON_ARRAY)) as target:
        target.send(BATCH)

    (request,) = server.requests
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == [{"a": 1}, "text", "/w=="]


def test_single_records_go_as_their_bytes_each_under_its_own_key() -> None:
    with serving() as server, opened(HttpSettings(url=server.url, format=Format.SINGLE)) as target:
        assert target.send(BATCH) == Delivered()

    assert [request.body for request in server.requests] == [b'{"a": 1}', b"text", b"\xff"]
    assert [request.headers["Idempotency-Key"] for request in server.requests] == [
        "1f2e-3d-2-5",
        "1f2e-3d-2-6",
        "1f2e-3d-2-7",
    ]
    assert {request.headers["Content-Type"] for request in server.requests} == {"application/octet-stream"}
    assert {request.headers["Holdfast-First-Offset"] for request in server.requests} == {"5", "6", "7"}


def test_single_records_ask_for_batches_of_one() -> None:
    target = HttpTarget(HttpSettings(url="http://127.0.0.1:1/", format=Format.SINGLE))

    limits = target.open(CONTEXT)
    target.close()

    assert limits is not None
    assert limits.records_max == 1


@pytest.mark.parametrize("status", [503, 422])
def test_single_records_say_how_many_were_taken_before_one_failed(status: int) -> None:
    def script(request: Request) -> Answer:
        return Answer(status if request.body == b"text" else 200)

    with serving(script) as server, opened(HttpSettings(url=server.url, format=Format.SINGLE)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry | Reject)
    assert outcome.delivered == 1
    assert isinstance(outcome, Retry) or outcome.exact
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_e20_what_may_pass_is_retried(status: int) -> None:
    with serving(lambda _: Answer(status)) as server, opened(HttpSettings(url=server.url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert outcome.delay_s is None
    assert f"HTTP {status}" in outcome.reason


def test_e20_a_refused_connection_is_retried() -> None:
    with serving() as server:
        url = server.url
    with opened(HttpSettings(url=url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert "refused" in outcome.reason.lower()


def test_a_connection_that_is_closed_without_an_answer_is_retried() -> None:
    with serving(lambda _: Answer(0)) as server, opened(HttpSettings(url=server.url)) as target:
        assert isinstance(target.send(BATCH), Retry)


def test_an_answer_that_is_no_http_is_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example.org ESMTP\r\n")
                connection.recv(1 << 16)

        other = Thread(target=answer)
        other.start()
        with opened(HttpSettings(url=f"http://127.0.0.1:{listener.getsockname()[1]}/")) as target:
            outcome = target.send(BATCH)
        other.join()

    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("RemoteProtocolError")


def test_a_target_that_does_not_answer_in_time_is_retried() -> None:
    over = Event()

    def script(_: Request) -> Answer:
        over.wait(30)
        return Answer()

    with serving(script) as server, opened(HttpSettings(url=server.url, timeout_s=0.1)) as target:
        outcome = target.send(BATCH)
        over.set()

    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("ReadTimeout")


@pytest.mark.parametrize(
    ("header", "delay_s"), [("17", 17.0), ("Wed, 01 May 2024 12:01:00 GMT", 60.0), ("86400", 600.0), ("later", None)]
)
def test_retry_after_is_honoured_within_its_bound(header: str, delay_s: float | None) -> None:
    with (
        serving(lambda _: Answer(503, {"Retry-After": header})) as server,
        opened(HttpSettings(url=server.url, retry_after_max_s=600.0)) as target,
    ):
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert outcome.delay_s == delay_s


def test_a_reject_names_status_and_place_and_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "Bearer s3cret")
    with serving(lambda _: Answer(422)) as server:
        settings = HttpSettings(url=server.url + "?token=hidden", authorization_env="ORDERS_TOKEN")
        with opened(settings) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason == f"HTTP 422 {HTTPStatus(422).phrase} from {server.url}"
    assert server.requests[0].headers["Authorization"] == "Bearer s3cret"
    assert server.requests[0].path == "/records?token=hidden"


def test_the_title_of_a_problem_document_goes_into_the_reason_and_its_detail_does_not() -> None:
    problem = json.dumps({"title": "Unknown customer", "detail": "payload: 4711"}).encode()
    answer = Answer(400, {"Content-Type": "application/problem+json; charset=utf-8"}, problem)
    with serving(lambda _: answer) as server, opened(HttpSettings(url=server.url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason.endswith(": Unknown customer")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"title": 1}', b"[" * 10_000])
def test_a_problem_document_that_is_none_changes_nothing(body: bytes) -> None:
    answer = Answer(400, {"Content-Type": "application/problem+json"}, body)
    with serving(lambda _: answer) as server, opened(HttpSettings(url=server.url)) as target:
        assert isinstance(target.send(BATCH), Reject)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_retried(status: int) -> None:
    with (
        serving() as elsewhere,
        serving(lambda _: Answer(status, {"Location": elsewhere.url})) as server,
        opened(HttpSettings(url=server.url)) as target,
    ):
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert elsewhere.requests == []


def test_connections_are_kept_and_an_endless_answer_is_not_read_to_its_end() -> None:
    with serving(lambda _: Answer(200, body=b"x" * 1000)) as server, opened(HttpSettings(url=server.url)) as target:
        for _ in range(3):
            target.send(BATCH)
        server.script = lambda _: Answer(200, body=b"x" * (50 << 20))
        assert target.send(BATCH) == Delivered()

    assert len({request.client_port for request in server.requests}) == 1


def test_an_answer_that_breaks_off_after_its_status_counts() -> None:
    with (
        serving(lambda _: Answer(200, {"Content-Length": "1000", "Connection": "close"}, b"x")) as server,
        opened(HttpSettings(url=server.url, timeout_s=0.3)) as target,
    ):
        assert target.send(BATCH) == Delivered()


def test_the_trace_context_goes_along() -> None:
    tracer = TracerProvider().get_tracer("test")
    with (
        serving() as server,
        opened(HttpSettings(url=server.url)) as target,
        tracer.start_as_current_span("deliver orders") as span,
    ):
        target.send(BATCH)

    trace_id = trace.format_trace_id(span.get_span_context().trace_id)
    assert server.requests[0].headers["traceparent"].split("-")[1] == trace_id


def test_headers_method_and_content_type_are_the_users() -> None:
    with serving() as server:
        options = {"url": server.url, "method": "PUT", "header.X-Tenant": "a", "content_type": "text/plain"}
        with opened(HttpSettings.from_options(options)) as target:
            target.send(BATCH)

    (request,) = server.requests
    assert request.method == "PUT"
    assert (request.headers["X-Tenant"], request.headers["Content-Type"]) == ("a", "text/plain")


def test_a_variable_that_is_not_set_is_said_when_the_target_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORDERS_TOKEN", raising=False)

    with pytest.raises(InvalidOption, match="ORDERS_TOKEN is not set"):
        HttpTarget(HttpSettings(url="http://127.0.0.1:1/", authorization_env="ORDERS_TOKEN")).open(CONTEXT)


def test_the_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    with serving() as server, opened(HttpSettings(url=server.url)) as target:
        assert target.send(BATCH) == Delivered()


def test_a_certificate_that_is_not_trusted_is_retried_and_a_trusted_one_taken(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate), *subject], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(tls=tls) as server:
        with opened(HttpSettings(url=server.url)) as target:
            refused = target.send(BATCH)
        with opened(HttpSettings(url=server.url, ca_file=str(certificate))) as target:
            taken = target.send(BATCH)

    assert isinstance(refused, Retry)
    assert "certificate" in refused.reason.lower()
    assert taken == Delivered()


def test_a_large_batch_goes_whole() -> None:
    batch = Batch("orders", "1f2e", 0, tuple(records(5000, size=1000)))
    with serving() as server, opened(HttpSettings(url=server.url)) as target:
        assert target.send(batch) == Delivered()

    assert len(server.requests[0].body.splitlines()) == 5000
