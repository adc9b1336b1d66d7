"""Spans of requests to remote systems, without credentials, queries and records."""

from __future__ import annotations

import socket

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from forebay.deliver import Retry
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import HttpSettings
from forebay.deliver.targets.postgresql.settings import settings_of
from forebay.deliver.targets.postgresql.target import PostgresqlTarget
from tests.support.targets.http_opened import BATCH, CONTEXT
from tests.support.targets.scripted_server import Answer, serving
from tests.support.telemetry.observed import Observed


def free_port() -> int:
    """A port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [(200, None, StatusCode.UNSET), (503, "503", StatusCode.ERROR), (422, "422", StatusCode.ERROR)],
)
def test_a_request_is_a_client_span_that_the_target_continues(
    status: int, error: str | None, outcome: StatusCode
) -> None:
    seen = Observed()
    with serving(lambda _: Answer(status)) as server:
        target = HttpTarget(HttpSettings(url=f"{server.url}?key=secret"), tracers=seen.tracers)
        target.open(CONTEXT)
        target.send(BATCH)
        target.close()

    [span] = seen.spans()
    attributes = dict(span.attributes or {})
    assert span.context is not None
    assert (span.name, span.kind, span.status.status_code) == ("POST", SpanKind.CLIENT, outcome)
    assert attributes.pop("error.type", None) == error
    assert attributes == {
        "http.request.method": "POST",
        "url.full": server.url,
        "server.address": "127.0.0.1",
        "server.port": int(server.url.split(":")[2].split("/")[0]),
        "http.response.status_code": status,
    }
    assert server.requests[0].headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"
    assert "secret" not in span.to_json()


def test_a_server_that_is_unreachable_is_named_with_the_kind_of_the_failure() -> None:
    seen, port = Observed(), free_port()
    target = HttpTarget(HttpSettings(url=f"http://127.0.0.1:{port}/?key=word"), tracers=seen.tracers)
    target.open(CONTEXT)

    assert isinstance(target.send(BATCH), Retry)
    target.close()

    [span] = seen.spans()
    attributes = dict(span.attributes or {})
    assert (attributes["server.port"], attributes["error.type"]) == (port, "ConnectError")
    assert "http.response.status_code" not in attributes
    assert "word" not in span.to_json()


def test_a_transaction_is_a_client_span_of_the_database() -> None:
    seen, port = Observed(), free_port()
    settings = settings_of(url=f"postgresql://127.0.0.1:{port}/store", table="readings")
    target = PostgresqlTarget(settings, tracers=seen.tracers)
    target.open(CONTEXT)

    assert isinstance(target.send(BATCH), Retry)
    target.close()

    [span] = seen.spans()
    assert (span.name, span.kind, span.status.status_code) == ("COPY readings", SpanKind.CLIENT, StatusCode.ERROR)
    assert dict(span.attributes or {}) == {
        "db.system.name": "postgresql",
        "db.namespace": "store",
        "db.collection.name": "readings",
        "db.operation.name": "COPY",
        "db.operation.batch.size": 3,
        "server.address": "127.0.0.1",
        "server.port": port,
        "error.type": "OperationalError",
    }
