"""Exporters of telemetry, and the SDK's providers over them, for broker, command line and tasks.

Exporters are found by their registered names, as the SDK finds its own; an exporter of another package is found too.
Providers created here do not wait for the end of the process: their creator closes them.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from typing import Any, Final

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from forebay.broker.telemetry.exporter_selection import ExporterSelection, ExporterSelectionInvalid, selected_exporters
from forebay.broker.telemetry.log_export import ExportHandler
from forebay.broker.telemetry.sampling import following_links
from forebay.broker.telemetry.series import SEEN_MAX

_log: Final = logging.getLogger(__name__)
CLOSE_S: Final = 5.0
"""Time that the end of the exporters waits for the last measurements to be sent."""
METRICS_CONNECTIONS_MAX: Final = 32
"""Connections of the endpoint for Prometheus; further ones are closed."""
METRICS_SILENCE_S: Final = 10.0
"""Time that a connection to the endpoint for Prometheus may be silent."""
VIEWS: Final = tuple(
    View(instrument_type=kind, aggregation_cardinality_limit=SEEN_MAX + 2)
    for kind in (ObservableGauge, ObservableCounter)
)
"""Bound of the SDK: one more for the overflow series, and one for readers at the same time."""
CLIENT_SERVICE: Final = "forebay-client"
"""Service name of a process whose providers OpenTelemetry creates by name."""


@dataclass(frozen=True, slots=True)
class Exporters:
    """Providers whose measurements and spans leave the process."""

    meters: MeterProvider
    tracers: TracerProvider
    ends: Sequence[Callable[[], object]]
    metrics_url: str = ""
    """URL of the endpoint for Prometheus, or empty."""

    close_s: float = CLOSE_S
    """Time that ``close`` waits."""

    frees: Sequence[Callable[[], None]] = ()
    """Free what the next exporters need: the address for Prometheus, and the events of the log."""

    def close(self) -> None:
        """Send the remaining data and end everything. Waits up to ``close_s``, as a receiver may be down.

        What the next exporters need is free then: a broker that hands its shard over becomes a follower.
        """
        ending = threading.Thread(target=self._end, name="forebay-telemetry-end", daemon=True)
        ending.start()
        ending.join(self.close_s)
        if ending.is_alive():
            _log.warning("telemetry was not sent in time seconds=%g", self.close_s)
            self._free()

    def close_later(self) -> None:
        """Free the address for Prometheus and the log, and end everything else in the background."""
        self._free()
        threading.Thread(target=self._end, name="forebay-telemetry-end", daemon=True).start()

    def _free(self) -> None:
        for free in self.frees:
            free()

    def _end(self) -> None:
        for end in self.ends:
            try:
                end()
            except Exception as error:  # noqa: BLE001 - the SDK raises nothing narrower; the others end all the same
                _log.warning("an exporter did not stop gracefully error=%s", type(error).__name__)


def export(exporting: ExporterSelection, *, service: str, instance: str = "") -> Exporters:
    """Create the exporters and start them.

    ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` take precedence over the arguments. Raises
    ``ExporterSelectionInvalid`` for an invalid variable or name, and OSError if the address for Prometheus cannot be
    bound.
    """
    resource = _resource(service, instance)
    endpoint = _prometheus(*exporting.prometheus) if exporting.prometheus is not None else None
    readers: list[MetricReader] = [] if endpoint is None else [endpoint.reader]
    try:
        readers += [PeriodicExportingMetricReader(_made("metrics", name)) for name in exporting.metrics]
        meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False, views=VIEWS)
        tracers = _tracers(exporting.traces, resource, at_exit=False)
        loggers = _loggers(exporting.logs, resource)
    except ExporterSelectionInvalid:
        if endpoint is not None:
            endpoint.close()
        raise
    ends: list[Callable[[], object]] = [tracers.shutdown, meters.shutdown]
    frees: list[Callable[[], None]] = []
    if loggers is not None:
        handler = ExportHandler(loggers)
        handler.open()
        ends += [handler.close, loggers.shutdown]
        frees.append(handler.close)
    if endpoint is not None:
        ends.append(endpoint.close)
        frees.append(endpoint.free)
    return Exporters(meters, tracers, ends, "" if endpoint is None else endpoint.url, frees=frees)


def tracer_provider() -> TracerProvider:
    """Return the provider of ``OTEL_PYTHON_TRACER_PROVIDER=forebay``.

    Its spans go to the exporters of the ``OTEL_…`` variables.
    """
    return _tracers(selected_exporters(os.environ).traces, _resource(CLIENT_SERVICE, ""), at_exit=True)


def meter_provider() -> MeterProvider:
    """Return the provider of ``OTEL_PYTHON_METER_PROVIDER=forebay``.

    Its metrics go to the exporters of the ``OTEL_…`` variables.
    """
    readers = [PeriodicExportingMetricReader(_made("metrics", name)) for name in selected_exporters(os.environ).metrics]
    return MeterProvider(metric_readers=readers, resource=_resource(CLIENT_SERVICE, ""))


def _tracers(names: Sequence[str], resource: Resource, *, at_exit: bool) -> TracerProvider:
    provider = TracerProvider(resource=resource, shutdown_on_exit=at_exit)
    provider.sampler = following_links(provider.sampler)  # that of the variables; no tracer has it yet
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_made("traces", name)))
    return provider


def _loggers(names: Sequence[str], resource: Resource) -> LoggerProvider | None:
    """Return the provider of log records; None if no exporter is wanted."""
    if not names:
        return None
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        provider.add_log_record_processor(BatchLogRecordProcessor(_made("logs", name)))
    return provider


def _resource(service: str, instance: str) -> Resource:
    ours = {"service.name": service, "service.version": version("forebay")}
    if instance:
        ours["service.instance.id"] = instance
    given = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in ours.items() if name not in given})


def _made(signal: str, name: str) -> Any:
    """A new exporter by its registered name; it reads its own variables."""
    found = next(iter(entry_points(group=f"opentelemetry_{signal}_exporter", name=name)), None)
    if found is None:
        raise ExporterSelectionInvalid(
            f"no exporter of {signal} is installed under the name {name!r}, which "
            f"OTEL_{signal.upper()}_EXPORTER or OTEL_EXPORTER_OTLP_PROTOCOL asks for"
        )
    try:
        return found.load()()
    except ValueError as error:
        raise ExporterSelectionInvalid(
            f"the exporter {name!r} cannot be made of its OTEL_ variables: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The Prometheus endpoint, with an end."""

    reader: MetricReader
    url: str
    close: Callable[[], None]
    free: Callable[[], None]
    """Close the socket, without a wait for the thread."""


def bound(server: Any) -> None:
    """Bound a server with a thread per connection: their number, and the time that one may be silent."""
    room = threading.BoundedSemaphore(METRICS_CONNECTIONS_MAX)
    begin, serve = server.process_request, server.process_request_thread

    def process_request(request: Any, address: Any) -> None:
        if not room.acquire(blocking=False):
            server.shutdown_request(request)
            return
        with ExitStack() as failure:
            failure.callback(room.release)
            request.settimeout(METRICS_SILENCE_S)
            begin(request, address)  # raises if no thread can be started: the server closes the connection
            failure.pop_all()

    def process_request_thread(request: Any, address: Any) -> None:
        try:
            serve(request, address)
        finally:
            room.release()

    server.process_request, server.process_request_thread = process_request, process_request_thread


def _prometheus(host: str, port: int) -> _Endpoint:
    # Only a process with a Prometheus endpoint needs its client.
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server  # noqa: PLC0415

    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(port, host.strip("[]"), registry)
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port} for metrics: {error}") from error
    thread.name = "forebay-metrics"
    bound(server)
    ProcessCollector(registry=registry)
    reader = PrometheusMetricReader(registry=registry)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    def free() -> None:
        with suppress(OSError):  # it may be closed by now
            server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which keeps the address while it waits
        threading.Thread(target=server.shutdown, name="forebay-metrics-end", daemon=True).start()
        server.server_close()

    return _Endpoint(reader, f"http://{host}:{server.server_port}/metrics", close, free)
