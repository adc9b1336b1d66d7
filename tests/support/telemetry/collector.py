"""OpenTelemetry Collector with the shipped configuration, between addresses of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.processes.broker import free_port
from tests.support.processes.server import ServerProcess
from tests.support.telemetry.tools import SHIPPED, tool

READY: Final = "Everything is ready"


class Collector(ServerProcess):
    """A collector that exports to the given Jaeger and Prometheus, and log events to its own log."""

    def __init__(self, folder: Path, *, jaeger: str, prometheus: str) -> None:
        """``jaeger`` is HOST:PORT, ``prometheus`` the URL of its OTLP receiver."""
        super().__init__(folder)
        self._program = tool("collector")
        grpc, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.endpoint = f"http://{grpc}"
        """Endpoint of OTLP over gRPC."""
        self._places = {
            "receivers.otlp.protocols.grpc.endpoint": grpc,
            "receivers.otlp.protocols.http.endpoint": http,
            "exporters.otlp_grpc/jaeger.endpoint": jaeger,
            "exporters.otlp_http/prometheus.endpoint": prometheus,
            "service.telemetry.metrics.level": "none",  # they are on a fixed port
        }

    def command(self) -> list[str]:
        places = [f"--set={name}={value}" for name, value in self._places.items()]
        return [self._program, f"--config=file:{SHIPPED / 'collector.yaml'}", *places]

    def is_ready(self) -> bool:
        return READY in self.log()
