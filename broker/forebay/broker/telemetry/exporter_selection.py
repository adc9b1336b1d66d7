"""Selection of exporters by the standard ``OTEL_…`` variables. Needs no SDK, and creates no exporter.

As the specification has it, with one exception: without any variable nothing is exported. An endpoint asks for OTLP,
``OTEL_METRICS_EXPORTER``, ``OTEL_TRACES_EXPORTER`` and ``OTEL_LOGS_EXPORTER`` name exporters or ``none``. Everything
else (intervals, headers, samplers, resource, ...) is read by the SDK itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

PROTOCOLS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The exporter's registered name by ``OTEL_EXPORTER_OTLP_PROTOCOL``."""

PROMETHEUS_HOST: Final = "127.0.0.1"
PROMETHEUS_PORT: Final = 9464


class ExporterSelectionInvalid(ValueError):
    """An ``OTEL_…`` variable is wrong. The text names it, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class ExporterSelection:
    """Selected exporters of metrics, traces and logs, and their options."""

    metrics: tuple[str, ...] = ()
    """Registered names of exporters of metrics, without ``prometheus``."""

    traces: tuple[str, ...] = ()
    """Registered names of exporters of spans."""

    logs: tuple[str, ...] = ()
    """Registered names of exporters of log events."""

    prometheus: tuple[str, int] | None = None
    """Host and port of the endpoint for Prometheus; port 0 selects a free one."""

    def with_prometheus(self, host: str, port: int) -> ExporterSelection:
        """The same, and an endpoint for Prometheus there."""
        return replace(self, prometheus=(host, port))


def selected_exporters(environment: Mapping[str, str]) -> ExporterSelection:
    """Read the variables. Raises ``ExporterSelectionInvalid``."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ExporterSelection()
    metrics = _names("METRICS", environment)
    exporting = ExporterSelection(
        tuple(name for name in metrics if name != "prometheus"),
        _names("TRACES", environment),
        _names("LOGS", environment),
    )
    if "prometheus" not in metrics:
        return exporting
    port = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "").strip() or str(PROMETHEUS_PORT)
    if not port.isdigit() or int(port) > 65_535:
        raise ExporterSelectionInvalid(f"OTEL_EXPORTER_PROMETHEUS_PORT = {port!r}: must be a port of 0 to 65535")
    return exporting.with_prometheus(
        environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "").strip() or PROMETHEUS_HOST, int(port)
    )


def _names(signal: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    variable = f"OTEL_{signal}_EXPORTER"
    text = environment.get(variable, "").strip()
    if not text:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        text = "otlp" if any(environment.get(name, "").strip() for name in endpoints) else "none"
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if "none" in names and len(names) > 1:
        raise ExporterSelectionInvalid(f"{variable} = {text!r}: none must be the only value")
    return tuple(_otlp(signal, environment) if name == "otlp" else name for name in names if name != "none")


def _otlp(signal: str, environment: Mapping[str, str]) -> str:
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environment.get(variable, "").strip()
        if protocol:
            if protocol not in PROTOCOLS:
                raise ExporterSelectionInvalid(f"{variable} = {protocol!r}: must be one of {', '.join(PROTOCOLS)}")
            return PROTOCOLS[protocol]
    return PROTOCOLS["grpc"]
