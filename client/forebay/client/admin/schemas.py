"""Schemas of a sink's rows: numbered, immutable versions.

A page of rows names the version of its schema; a reader gets each version once. The broker stores schemas without
interpreting them: the client that registers a version compares it with the previous one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from forebay.client.errors import SchemaNotFound
from forebay.client.transport.channel import Channels
from forebay.client.transport.service import Service
from forebay.client.values.convert import moment
from forebay.client.values.schemas import Schema
from forebay.v1 import schema_service_pb2 as pb
from forebay.v1.schema_service_pb2_grpc import SchemaServiceStub

PAGE_SIZE = 1000


class Schemas:
    """Schemas of a client's sinks. Thread-safe."""

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, SchemaServiceStub)

    def get(self, sink: str, version: int = 0, *, incarnation: str = "") -> Schema:
        """Return a version, by default the latest.

        Raises ``SchemaNotFound``, ``SinkNotFound``, ``SinkReplaced``.
        """
        request = pb.GetSchemaRequest(sink=sink, version=version, incarnation=incarnation)
        response = self._service.call("GetSchema", sink, request)
        return _schema(response.schema, response.incarnation)

    def latest(self, sink: str, *, incarnation: str = "") -> tuple[int, Schema | None]:
        """Return the highest registered version, or 0, and the latest version that the broker still has.

        The two differ if a damaged store has lost versions. Raises ``SinkNotFound``, ``SinkReplaced``.
        """
        try:
            found = self.get(sink, incarnation=incarnation)
        except SchemaNotFound as none:
            highest = max(0, none.latest)
            kept = [one.version for one in self.list(sink) if one.registered_at is not None] if highest else []
            return highest, self.get(sink, kept[-1], incarnation=incarnation) if kept else None
        return found.version, found

    def register(
        self, sink: str, arrow_schema: bytes, *, previous: int, spark_schema: str = "", incarnation: str = ""
    ) -> int:
        """Register a schema as the next version, durably; return its number.

        A schema that equals the latest version keeps its number. ``previous`` is the version that the schema was
        compared with, or 0. Raises ``SchemaChanged`` if ``previous`` is not the latest version, ``SinkReplaced`` for
        another ``incarnation``, ``INVALID_SCHEMA``, ``SinkNotFound``.
        """
        request = pb.RegisterSchemaRequest(
            sink=sink,
            previous_version=previous,
            arrow_schema=arrow_schema,
            spark_schema=spark_schema,
            incarnation=incarnation,
        )
        response = self._service.call("RegisterSchema", sink, request)
        return int(response.version)

    def list(self, sink: str) -> list[Schema]:
        """Return all versions in order, without their contents; raises ``SinkNotFound``."""
        request = pb.ListSchemasRequest(sink=sink, page_size=PAGE_SIZE)
        return [_schema(one) for page in self._service.pages("ListSchemas", sink, request) for one in page.schemas]


class SchemaCache:
    """Cache of the schema versions that a reader of a sink has used. Thread-safe."""

    def __init__(self, channels: Channels, sink: str) -> None:
        self._schemas = Schemas(channels)
        self._sink = sink
        self._lock = threading.Lock()
        """Protects the two below; a second thread waits for the answer to the first thread's request."""
        self._incarnation = ""
        self._known: dict[int, Schema] = {}

    def source(self, incarnation: str) -> Callable[[int], Schema]:
        """Return a loader of versions of the sink with this incarnation; it raises as ``Schemas.get``."""

        def schema_of(version: int) -> Schema:
            with self._lock:
                if self._incarnation != incarnation:  # the sink was deleted and recreated
                    self._incarnation, self._known = incarnation, {}
                if version not in self._known:
                    self._known[version] = self._schemas.get(self._sink, version, incarnation=incarnation)
                return self._known[version]

        return schema_of


def _schema(message: pb.Schema, incarnation: str = "") -> Schema:
    return Schema(
        message.version,
        moment(message.registered_at) if message.HasField("registered_at") else None,
        message.arrow_schema,
        message.spark_schema,
        incarnation,
    )
