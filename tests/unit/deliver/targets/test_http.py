"""Requests of the HTTP target to a real server."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from forebay.deliver import Batch, Delivered, InvalidOption, Reject, Retry
from forebay.deliver.targets import registry
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import Format, HttpSettings
from forebay.text import is_safe
from tests.support.certificates import Authority
from tests.support.targets.http_opened import BATCH, CONTEXT, opened
from tests.support.targets.memory_source import records
from tests.support.targets.scripted_server import Answer, Request, serving


def test_ndjson_holds_a_batch_one_value_a_line_under_one_key() -> None:
    with serving() as server, opened(HttpSettings(url=server.url)) as target:
        assert target.send(BATCH) == Delivered()

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/records")
    assert request.body == b'{"a": 1}\n"text"\n"/w=="\n'
    expected = {
        "Content-Type": "application/x-ndjson",
        "Idempotency-Key": "1f2e-3d-2-5-7",
        "Forebay-Sink": "orders",
        "Forebay-Incarnation": "1f2e-3d",
        "Forebay-Partition": "2",
        "Forebay-First-Offset": "5",
        "Forebay-Last-Offset": "7",
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
    assert {request.headers["Forebay-First-Offset"] for request in server.requests} == {"5", "6", "7"}


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


def test_a_header_that_the_target_has_a_default_for_is_sent_once_whatever_its_case() -> None:
    with serving() as server:
        options = {"url": server.url, "header.user-agent": "mine", "header.ACCEPT-ENCODING": "gzip"}
        with opened(HttpSettings.from_options(options)) as target:
            target.send(BATCH)

    headers = server.requests[0].headers
    assert (headers.get_all("User-Agent"), headers.get_all("Accept-Encoding")) == (["mine"], ["gzip"])


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


def test_a_renewed_certificate_is_presented_without_a_restart(tmp_path: Path) -> None:
    ours, before, after = (Authority(tmp_path / name) for name in ("ours", "before", "after"))
    server_pair, cert, key = ours.signed("server"), tmp_path / "client.pem", tmp_path / "client.key"

    def renew(authority: Authority) -> None:
        pair = authority.signed("client")
        for new, place in ((pair.cert, cert), (pair.key, key)):
            new.rename(place)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2  # a certificate is refused within the handshake
    tls.load_cert_chain(server_pair.cert, server_pair.key)
    tls.load_verify_locations(after.cert)
    tls.verify_mode = ssl.CERT_REQUIRED
    renew(before)
    with serving(tls=tls) as server:
        settings = HttpSettings(url=server.url, ca_file=str(ours.cert), cert_file=str(cert), key_file=str(key))
        with opened(settings) as target:
            refused = target.send(BATCH)
            renew(after)
            taken = target.send(BATCH)

    assert isinstance(refused, Retry)
    assert taken == Delivered()


def test_a_large_batch_goes_whole() -> None:
    batch = Batch("orders", "1f2e", 0, tuple(records(5000, size=1000)))
    with serving() as server, opened(HttpSettings(url=server.url)) as target:
        assert target.send(batch) == Delivered()

    assert len(server.requests[0].body.splitlines()) == 5000


@pytest.mark.parametrize("value", ["Bearer s3cret\nX-Evil: 1", "Bearer s3cret\x00", "Bearer s3crét\x7f"])
def test_a_credential_that_no_header_may_hold_is_refused_at_the_start_and_not_repeated(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "ORDERS_TOKEN": value})
    target = HttpTarget(HttpSettings(url="https://127.0.0.1:1/", authorization_env="ORDERS_TOKEN"))

    with pytest.raises(InvalidOption, match="ORDERS_TOKEN contains a control") as refused:
        target.open(CONTEXT)
    assert "s3cr" not in str(refused.value)


def test_a_credential_that_the_target_sends_back_is_in_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "Bearer s3cret-token")

    def script(request: Request) -> Answer:
        title = f"{request.headers['Authorization']} is not welcome, nor s3cret-token"
        body = json.dumps({"title": title}).encode()
        return Answer(401, {"Content-Type": "application/problem+json"}, body)

    with serving(script) as server:
        settings = HttpSettings(url=server.url, authorization_env="ORDERS_TOKEN")
        with opened(settings) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert "s3cret" not in outcome.reason
    assert "[credential] is not welcome, nor [credential]" in outcome.reason


def test_a_long_credential_that_the_target_sends_back_is_in_no_reason_not_even_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "".join(chr(ord("A") + index % 26) for index in range(300))
    monkeypatch.setenv("ORDERS_TOKEN", f"Bearer {secret}")
    body = json.dumps({"title": f"invalid token: {secret} of nobody"}).encode()
    answer = Answer(401, {"Content-Type": "application/problem+json"}, body)

    with (
        serving(lambda _: answer) as server,
        opened(HttpSettings(url=server.url, authorization_env="ORDERS_TOKEN")) as target,
    ):
        outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason.endswith("invalid token: [credential] of nobody")


def test_a_secret_of_another_header_is_removed_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def script(request: Request) -> Answer:
        title = f"unknown key {request.headers['X-Api-Key']}"
        body = json.dumps({"title": title}).encode()
        return Answer(401, {"Content-Type": "application/problem+json"}, body)

    with serving(script) as server:
        options = {"url": server.url, "header.X-Api-Key": "abc123"}
        with caplog.at_level("WARNING"), opened(HttpSettings.from_options(options)) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason.endswith("unknown key [credential]")
    assert "credentials go unencrypted" in caplog.text
    assert "headers=X-Api-Key" in caplog.text
    assert "abc123" not in caplog.text


def test_no_value_of_a_header_is_in_a_reason_or_a_log_line_whatever_its_name(caplog: pytest.LogCaptureFixture) -> None:
    def script(request: Request) -> Answer:
        headers = request.headers
        title = f"no {headers['X-Tenant']} in {headers['X-Wait_s']}, use {headers['Content-Type']}"
        return Answer(403, {"Content-Type": "application/problem+json"}, json.dumps({"title": title}).encode())

    with serving(script) as server:
        options = {"url": server.url, "header.X-Tenant": "s3cret tenant", "header.X-Wait_s": "not-a-number"}
        target = registry.create("http", options)
        assert isinstance(target, HttpTarget)
        with caplog.at_level("DEBUG", logger="forebay"):
            target.open(CONTEXT)
            outcome = target.send(BATCH)
            target.close()

    assert isinstance(outcome, Reject)
    assert outcome.reason.endswith("no [credential] in [credential], use application/x-ndjson")
    assert server.url.rstrip("/") in outcome.reason
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(HttpSettings.from_options(options))


def test_the_problem_title_of_a_target_has_no_control_characters_in_the_reason() -> None:
    body = json.dumps({"title": "\x1b[2J\u202e\nforged"}).encode()
    answer = Answer(400, {"Content-Type": "application/problem+json"}, body)
    with serving(lambda _: answer) as server, opened(HttpSettings(url=server.url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert is_safe(outcome.reason)


@pytest.mark.parametrize(("scheme", "warns"), [("http", True), ("https", False)])
def test_credentials_over_plain_http_are_warned_of(
    scheme: str, warns: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "Bearer s3cret")
    with caplog.at_level("WARNING"), opened(HttpSettings(url=f"{scheme}://h/", authorization_env="ORDERS_TOKEN")):
        pass

    assert ("credentials go unencrypted" in caplog.text) is warns
    assert "s3cret" not in caplog.text
