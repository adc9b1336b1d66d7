"""Jaeger on loopback: it takes spans as OTLP, keeps them in memory and answers queries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.support.processes.broker import free_port
from tests.support.processes.server import ServerProcess
from tests.support.telemetry.otlp import WAIT_S, Span
from tests.support.telemetry.tools import tool

_STORE: Final = "memory"
_TRACES_MAX: Final = 1_000
_EVER: Final = {"query.start_time_min": "2000-01-01T00:00:00Z", "query.start_time_max": "2200-01-01T00:00:00Z"}


class Jaeger(ServerProcess):
    """A Jaeger of one process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = tool("jaeger")
        self.otlp = f"127.0.0.1:{free_port()}"
        """HOST:PORT of its receiver of OTLP over gRPC."""
        self._query = f"127.0.0.1:{free_port()}"
        config = {
            "extensions": {
                "jaeger_storage": {"backends": {_STORE: {"memory": {"max_traces": _TRACES_MAX}}}},
                "jaeger_query": {
                    "storage": {"traces": _STORE},
                    "http": {"endpoint": self._query},
                    "grpc": {"endpoint": f"127.0.0.1:{free_port()}"},
                },
            },
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": self.otlp}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": _STORE}},
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        (folder / "jaeger.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def command(self) -> list[str]:
        return [self._program, "--config=file:jaeger.yaml"]

    def is_ready(self) -> bool:
        try:
            self._get("services")
        except (URLError, ConnectionError):
            return False
        return True

    def services(self) -> set[str]:
        """Return the services that sent spans."""
        return set(self._get("services").get("services") or ())

    def spans(self, name: str, count: int = 1) -> list[Span]:
        """Return the spans of a name, once there are so many; it polls, as Jaeger notifies of nothing."""
        ends_at, pause = time.monotonic() + WAIT_S, Event()
        while len(found := [span for span in self.all_spans() if span.name == name]) < count:
            assert time.monotonic() < ends_at, f"{count} of {name!r} did not come: {len(found)}"
            pause.wait(0.1)
        return found

    def all_spans(self) -> list[Span]:
        """Return every span that came so far."""
        found: dict[tuple[bytes, bytes], Span] = {}
        for service in self.services():
            asked = {"query.service_name": service, "query.num_traces": str(_TRACES_MAX), **_EVER}
            for span in _spans(self._get(f"traces?{urlencode(asked)}")["result"]):
                found[span.context] = span
        return list(found.values())

    def _get(self, what: str) -> dict[str, Any]:
        with urlopen(f"http://{self._query}/api/v3/{what}", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def _spans(result: dict[str, Any]) -> Iterator[Span]:
    for resource in result["resourceSpans"]:
        service = _attributes(resource["resource"])["service.name"]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Span(
                    service=service,
                    name=span["name"],
                    trace_id=bytes.fromhex(span["traceId"]),
                    span_id=bytes.fromhex(span["spanId"]),
                    parent_id=bytes.fromhex(span.get("parentSpanId", "")),
                    links=frozenset(
                        (bytes.fromhex(one["traceId"]), bytes.fromhex(one["spanId"])) for one in span.get("links", ())
                    ),
                    attributes=_attributes(span),
                    start_ns=int(span["startTimeUnixNano"]),
                    end_ns=int(span["endTimeUnixNano"]),
                    message=span["status"].get("message", ""),
                )


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: _value(one["value"]) for one in holder.get("attributes", ())}


def _value(value: dict[str, Any]) -> Any:
    [(kind, found)] = value.items()
    return int(found) if kind == "intValue" else found
