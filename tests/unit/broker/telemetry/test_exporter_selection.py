from __future__ import annotations

import pytest

from forebay.broker.telemetry.exporter_selection import ExporterSelection, ExporterSelectionInvalid, selected_exporters

GRPC = ("otlp_proto_grpc",)
HTTP = ("otlp_proto_http",)
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ExporterSelection()),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ExporterSelection()),
        (ENDPOINT, ExporterSelection(GRPC, GRPC, GRPC)),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://collector:4317"}, ExporterSelection(logs=GRPC)),
        ({"OTEL_LOGS_EXPORTER": "otlp"}, ExporterSelection(logs=GRPC)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4317"}, ExporterSelection(metrics=GRPC)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, ExporterSelection(traces=GRPC)),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "none"}, ExporterSelection(metrics=GRPC)),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, ExporterSelection(metrics=GRPC, logs=GRPC)),
        ({**ENDPOINT, "OTEL_LOGS_EXPORTER": "none"}, ExporterSelection(GRPC, GRPC)),
        (
            {**ENDPOINT, "OTEL_TRACES_EXPORTER": " otlp , console, otlp"},
            ExporterSelection(GRPC, (*GRPC, "console"), GRPC),
        ),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ExporterSelection(HTTP, HTTP, HTTP)),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, ExporterSelection(GRPC, HTTP, GRPC)),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, ExporterSelection()),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, ExporterSelection(prometheus=("127.0.0.1", 9464))),
        (
            {
                "OTEL_METRICS_EXPORTER": "prometheus,otlp",
                "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
                "OTEL_EXPORTER_PROMETHEUS_PORT": "1",
            },
            ExporterSelection(metrics=GRPC, prometheus=("0.0.0.0", 1)),
        ),
    ],
)
def test_the_standard_variables_say_what_is_exported(environment: dict[str, str], expected: ExporterSelection) -> None:
    assert selected_exporters(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "must be one of grpc, http/protobuf"),
        ({"OTEL_METRICS_EXPORTER": "none,otlp"}, "OTEL_METRICS_EXPORTER = 'none,otlp': none must be the only value"),
        ({"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "x"}, "a port of 0 to 65535"),
    ],
)
def test_a_variable_that_is_wrong_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ExporterSelectionInvalid, match=message):
        selected_exporters(environment)


def test_an_address_for_prometheus_comes_on_top() -> None:
    exporting = selected_exporters(ENDPOINT).with_prometheus("127.0.0.1", 0)

    assert exporting == ExporterSelection(GRPC, GRPC, GRPC, ("127.0.0.1", 0))
