"""The schemas of a sink's rows: numbered versions that never change.

A page of rows names the version that they have; the schema itself is asked for once. The broker keeps schemas and does
not look inside: whoever registers a version has compared it with the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from forebay.client.admin.listing import parts
from forebay.client.errors import SchemaNotFound
from forebay.client.transport.channel import Channels, Unary
from forebay.client.values.convert import moment
from forebay.v1 import schema_service_pb2 as pb
from forebay.v1.schema_service_pb2_grpc import SchemaServiceStub

PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of the schema of a sink's rows."""

    version: int
    """From 1."""

    registered_at: datetime | None
    """``None`` for a version that the broker lost when its store was damaged."""

    arrow_schema: bytes = b""
    """The schema message of Arrow's IPC stream format; left out by ``list``. See ``forebay.client.arrow``."""

    spark_schema: str = ""
    """Spark's own schema as JSON, or empty; left out by ``list``."""

    incarnation: str = ""
    """Of the sink that it is a version of; left out by ``list``. Publish rows with it to no other one of that name."""


class Schemas:
    """The schemas of a client's sinks. Usable from several threads."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)

    def _stub(self, sink: str) -> SchemaServiceStub:
        return self._channels.stub(SchemaServiceStub, sink)

    def get(self, sink: str, version: int = 0, *, incarnation: str = "") -> Schema:
        """Return a version, the latest without one; raises ``SchemaNotFound``, ``SinkNotFound``, ``SinkReplaced``."""
        request = pb.GetSchemaRequest(sink=sink, version=version, incarnation=incarnation)
        response, _ = self._unary.call("GetSchema", lambda t: self._stub(sink).GetSchema(request, timeout=t))
        return _schema(response.schema, response.incarnation)

    def latest(self, sink: str, *, incarnation: str = "") -> tuple[int, Schema | None]:
        """Return the highest version that was given, 0 for none, and the latest one that the broker still has.

        The two differ where a damaged store has lost some. Raises ``SinkNotFound``, ``SinkReplaced``.
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
        """Keep a schema as the next version, durably, and return its number; the same as the latest is that one.

        ``previous`` is the version that it was compared with, 0 when there was none. Raises ``SchemaChanged`` when it
        is not the latest one, ``SinkReplaced`` when it is of another ``incarnation``, ``InvalidSchema``,
        ``SinkNotFound``.
        """
        request = pb.RegisterSchemaRequest(
            sink=sink,
            previous_version=previous,
            arrow_schema=arrow_schema,
            spark_schema=spark_schema,
            incarnation=incarnation,
        )
        response, _ = self._unary.call("RegisterSchema", lambda t: self._stub(sink).RegisterSchema(request, timeout=t))
        return int(response.version)

    def list(self, sink: str) -> list[Schema]:
        """Return all versions in order, without their contents; raises ``SinkNotFound``."""

        def ask(token: str) -> pb.ListSchemasResponse:
            request = pb.ListSchemasRequest(sink=sink, page_size=PAGE_SIZE, page_token=token)
            answer: pb.ListSchemasResponse = self._unary.call(
                "ListSchemas", lambda t: self._stub(sink).ListSchemas(request, timeout=t)
            )[0]
            return answer

        return [_schema(one) for part in parts(ask) for one in part.schemas]


class SchemaCache:
    """The versions that one reader of a sink has met. Usable from several threads."""

    def __init__(self, channels: Channels, sink: str) -> None:
        self._schemas = Schemas(channels)
        self._sink = sink
        self._lock = threading.Lock()
        """Protects the two below; a second thread waits for the answer that the first has asked for."""
        self._incarnation = ""
        self._known: dict[int, Schema] = {}

    def source(self, incarnation: str) -> Callable[[int], Schema]:
        """Return what finds versions of the sink with this incarnation; it raises as ``Schemas.get`` does."""

        def schema_of(version: int) -> Schema:
            with self._lock:
                if self._incarnation != incarnation:  # the sink was deleted and made again
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
