from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import ExitStack
from dataclasses import replace
from threading import Event
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, SpanContext, TraceFlags

from forebay.broker.telemetry.exporter_selection import ExporterSelection, ExporterSelectionInvalid
from forebay.broker.telemetry.exporters import (
    METRICS_CONNECTIONS_MAX,
    Exporters,
    bound,
    export,
    meter_provider,
    tracer_provider,
)

NOTHING = ExporterSelection(prometheus=("127.0.0.1", 0))


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any ``OTEL_`` variable."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def fetch(url: str) -> str:
    """Return the exposition for Prometheus."""
    with urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_prometheus_gets_the_metrics_of_this_broker_and_of_no_other_in_the_process() -> None:
    one, other = export(NOTHING, service="a"), export(NOTHING, service="b")
    one.meters.get_meter("test").create_counter("mine").add(1)
    other.meters.get_meter("test").create_counter("theirs").add(1)

    text = fetch(one.metrics_url)

    assert "mine_total" in text
    assert "process_resident_memory_bytes" in text
    assert "theirs_total" not in text
    one.close()
    other.close()


def test_the_endpoint_is_gone_after_the_end() -> None:
    exporters = export(NOTHING, service="a")
    exporters.close()

    with pytest.raises(OSError, match="refused"):
        fetch(exporters.metrics_url)


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port} for metrics"):
            export(ExporterSelection(prometheus=("127.0.0.1", port)), service="a")


def test_names_of_the_environment_win_over_ours(variables: pytest.MonkeyPatch) -> None:
    ours = export(NOTHING, service="forebay-broker", instance="store-1")
    variables.setenv("OTEL_SERVICE_NAME", "theirs")
    variables.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=i,deployment.environment.name=test")
    theirs = export(NOTHING, service="forebay-broker", instance="store-1")

    first, second = ours.tracers.resource.attributes, theirs.tracers.resource.attributes
    assert (first["service.name"], first["service.instance.id"]) == ("forebay-broker", "store-1")
    assert (second["service.name"], second["service.instance.id"]) == ("theirs", "i")
    assert second["deployment.environment.name"] == "test"
    ours.close()
    theirs.close()


def test_an_exporter_that_is_not_installed_is_named() -> None:
    with pytest.raises(ExporterSelectionInvalid, match="no exporter of traces is installed under the name 'nowhere'"):
        export(ExporterSelection(traces=("nowhere",), prometheus=("127.0.0.1", 0)), service="a")


def test_a_variable_that_the_exporter_cannot_read_is_an_error_of_ours(variables: pytest.MonkeyPatch) -> None:
    variables.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")

    with pytest.raises(ExporterSelectionInvalid, match="soon"):
        export(ExporterSelection(traces=("otlp_proto_grpc",)), service="a")


def test_an_end_does_not_wait_for_ever_for_a_stuck_call(caplog: pytest.LogCaptureFixture) -> None:
    never = Event()
    exporters = Exporters(MeterProvider(), TracerProvider(), [never.wait], close_s=0.05)

    exporters.close()

    assert "telemetry was not sent in time" in caplog.text
    never.set()


def test_the_address_for_prometheus_is_free_after_an_end_that_a_stuck_receiver_holds_up() -> None:
    receiver = Event()
    made = export(NOTHING, service="a")
    port = int(made.metrics_url.split(":")[2].partition("/")[0])

    replace(made, ends=[receiver.wait, *made.ends], close_s=0.05).close()

    with socket.create_server(("127.0.0.1", port)) as taken:
        assert taken.getsockname()[1] == port
    receiver.set()


def test_an_end_that_fails_does_not_keep_the_others_from_ending(caplog: pytest.LogCaptureFixture) -> None:
    ended = Event()

    def fails() -> None:
        raise RuntimeError("secret")

    Exporters(MeterProvider(), TracerProvider(), [fails, ended.set]).close()

    assert ended.is_set()
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_providers_by_name_export_only_what_was_asked_for() -> None:
    tracers, meters = tracer_provider(), meter_provider()

    assert tracers.resource.attributes["service.name"] == "forebay-client"
    tracers.shutdown()
    meters.shutdown()


def test_a_span_that_is_linked_to_a_sampled_one_is_exported_at_any_ratio(variables: pytest.MonkeyPatch) -> None:
    variables.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    variables.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    exporters, by_name = export(NOTHING, service="a"), tracer_provider()
    sampled = Link(SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))

    for tracers in (exporters.tracers, by_name):
        tracer = tracers.get_tracer("test")
        assert tracer.start_span("deliver", links=[sampled]).is_recording()
        assert not tracer.start_span("deliver").is_recording()
    exporters.close()
    by_name.shutdown()


@pytest.mark.slow
def test_connections_whose_thread_cannot_be_started_take_no_room() -> None:
    class Threads:
        """Server whose first threads cannot be started."""

        def __init__(self) -> None:
            self.requests: list[object] = []

        def process_request(self, request: object, address: object) -> None:
            self.requests.append(request)
            if len(self.requests) <= METRICS_CONNECTIONS_MAX + 1:
                raise RuntimeError("can't start new thread")

        def process_request_thread(self, request: object, address: object) -> None:
            """Serve nothing."""

        def shutdown_request(self, request: object) -> None:
            raise AssertionError("there is room")

    server = Threads()
    bound(server)
    with socket.socket() as request:
        for _ in range(METRICS_CONNECTIONS_MAX + 1):
            with pytest.raises(RuntimeError, match="start new thread"):
                server.process_request(request, ("127.0.0.1", 1))

        server.process_request(request, ("127.0.0.1", 1))

    assert len(server.requests) == METRICS_CONNECTIONS_MAX + 2


def test_the_endpoint_for_prometheus_takes_so_many_connections_and_closes_further_ones() -> None:
    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"x")
            self.request.recv(1)

    with ExitStack() as stack:
        server = stack.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo))
        bound(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10))

        taken = [connected() for _ in range(METRICS_CONNECTIONS_MAX)]
        assert [one.recv(1) for one in taken] == [b"x"] * METRICS_CONNECTIONS_MAX
        assert connected().recv(1) == b""
        for one in taken:
            one.close()
