"""Schemas of a sink's rows: numbered, immutable versions.

A page of rows names the version of its schema; a reader gets each version once. The broker stores schemas without
interpreting them: the client that registers a version compares it with the previous one.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence

from forebay.client.errors import ForebayError, SchemaNotFound
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, blocked, operation
from forebay.client.transport.service import Service
from forebay.client.values.convert import moment
from forebay.client.values.schemas import Schema
from forebay.page import rows
from forebay.page.format import MalformedPage
from forebay.v1 import record_pb2
from forebay.v1 import schema_service_pb2 as pb
from forebay.v1.schema_service_pb2_grpc import SchemaServiceStub

PAGE_SIZE = 1000


class SchemaCalls:
    """Schemas of a client's sinks."""

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, SchemaServiceStub)

    @operation
    async def get(self, sink: str, version: int = 0, *, incarnation: str = "") -> Schema:
        """Return a version, by default the latest.

        Raises ``SchemaNotFound``, ``SinkNotFound``, ``SinkReplaced``.
        """
        return await self.fetch(sink, version, incarnation)

    async def fetch(self, sink: str, version: int, incarnation: str) -> Schema:
        """Return a version; 0 is the latest."""
        request = pb.GetSchemaRequest(sink=sink, version=version, incarnation=incarnation)
        response = await self._service.call("GetSchema", sink, request)
        return _schema(response.schema, response.incarnation)

    @operation
    async def latest(self, sink: str, *, incarnation: str = "") -> tuple[int, Schema | None]:
        """Return the highest registered version, or 0, and the latest version that the broker still has.

        The two differ if a damaged store has lost versions. Raises ``SinkNotFound``, ``SinkReplaced``.
        """
        try:
            found = await self.fetch(sink, 0, incarnation)
        except SchemaNotFound as none:
            highest = max(0, none.latest)
            known = await self._list(sink) if highest else []
            kept = [one.version for one in known if one.registered_at is not None]
            return highest, await self.fetch(sink, kept[-1], incarnation) if kept else None
        return found.version, found

    @operation
    async def register(
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
        response = await self._service.call("RegisterSchema", sink, request)
        return int(response.version)

    @operation
    async def list(self, sink: str) -> list[Schema]:
        """Return all versions in order, without their contents; raises ``SinkNotFound``."""
        return [*await self._list(sink)]

    async def _list(self, sink: str) -> Sequence[Schema]:
        request = pb.ListSchemasRequest(sink=sink, page_size=PAGE_SIZE)
        return [
            _schema(one) async for page in self._service.pages("ListSchemas", sink, request) for one in page.schemas
        ]


class Schemas(SchemaCalls, Blocking):
    """Schemas of a client's sinks. Thread-safe."""


class SchemaCache:
    """Cache of the schema versions that a reader of a sink has used. Thread-safe."""

    def __init__(self, channels: Channels, sink: str) -> None:
        self._schemas = SchemaCalls(channels)
        self._blocks = channels.io.blocks
        self._sink = sink
        self._lock = threading.Lock()
        """Protects the two below; a second thread waits for the answer to the first thread's request."""
        self._incarnation = ""
        self._known: dict[int, Schema] = {}

    async def source(self, incarnation: str, pages: Iterable[record_pb2.StoredPage]) -> Callable[[int], Schema]:
        """Return a loader of versions of the sink with this incarnation; it raises as ``Schemas.get``.

        In the thread client it loads a version at its first use. On an event loop it cannot wait, so the versions that
        ``pages`` name are loaded before it is returned.
        """
        schema_of, load = self.prepared(incarnation, pages)
        if load is not None:
            await load()
        return schema_of

    def prepared(
        self, incarnation: str, pages: Iterable[record_pb2.StoredPage]
    ) -> tuple[Callable[[int], Schema], Callable[[], Awaitable[None]] | None]:
        """Return the loader of ``source``, and what to await before it is used; None if nothing."""
        if self._blocks:
            return self._loader(incarnation), None
        known = self._known_of(incarnation)
        return self._loaded(incarnation, {_version(page) for page in pages} - {0, *known})

    def _loader(self, incarnation: str) -> Callable[[int], Schema]:
        def schema_of(version: int) -> Schema:
            with self._lock:
                known = self._known_of(incarnation)
                if version not in known:
                    known[version] = blocked(self._schemas.fetch(self._sink, version, incarnation))
                return known[version]

        return schema_of

    def _loaded(
        self, incarnation: str, missing: set[int]
    ) -> tuple[Callable[[int], Schema], Callable[[], Awaitable[None]] | None]:
        known = self._known_of(incarnation)
        failed: dict[int, ForebayError] = {}

        async def load() -> None:
            for version in missing:
                if version not in known:
                    try:
                        known[version] = await self._schemas.fetch(self._sink, version, incarnation)
                    except ForebayError as error:
                        failed[version] = error  # raised when the page is decoded

        def schema_of(version: int) -> Schema:
            if version in failed:
                raise failed[version]
            return known[version]

        return schema_of, load if missing else None

    def _known_of(self, incarnation: str) -> dict[int, Schema]:
        """Return the versions of this incarnation; those of a deleted sink are dropped."""
        if self._incarnation != incarnation:
            self._incarnation, self._known = incarnation, {}
        return self._known


def _version(page: record_pb2.StoredPage) -> int:
    """Return the version of the schema of a page; 0 without one."""
    if page.encoding != record_pb2.ENCODING_ARROW:
        return 0
    try:
        return rows.rows_of(page.body).schema_version
    except MalformedPage:  # reported when the page is decoded
        return 0


def _schema(message: pb.Schema, incarnation: str = "") -> Schema:
    return Schema(
        message.version,
        moment(message.registered_at) if message.HasField("registered_at") else None,
        message.arrow_schema,
        message.spark_schema,
        incarnation,
    )
