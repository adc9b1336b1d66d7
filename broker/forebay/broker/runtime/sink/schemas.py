"""Schema registry of one sink: numbered versions that never change.

A version is decided at once and reported when it is durable. The broker compares bytes and decodes nothing: a caller
that registers a version has compared it with the latest one, and names that one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from forebay.broker.core.errors import BrokerError, InvalidPage, InvalidValue, SchemaNotFound
from forebay.broker.core.writes import PutSchema, SchemaRecord
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
SCHEMA_BYTES_MAX: Final = 1 << 20
VERSIONS_MAX: Final = 65_536
ORIGIN_S: Final = 1_735_689_600
"""2025-01-01, from which the versions after a restore are counted."""
ALL_BYTES_MAX: Final = 64 << 20
"""Bytes of all versions of a sink: they are held in memory."""


class Schemas:
    """All versions of one sink's schema. Used on the loop; ``stored`` from any thread."""

    def __init__(
        self, sink: Sink, committer: Committer, found: Iterable[SchemaRecord], *, restored_at_us: int = 0
    ) -> None:
        """``restored_at_us`` is the time at which the sink was restored from a backup, 0 if it was not.

        The next version is at least the seconds from ``ORIGIN_S`` to then: a client may know versions that were
        registered after the backup, and must not take a later one for one of them.
        """
        self._sink = sink
        self._committer = committer
        self._versions = {schema.version: schema for schema in found}
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """Versions that are not durable yet."""
        self._least = max(1, restored_at_us // 1_000_000 - ORIGIN_S)
        self._bytes = sum(map(_size, self._versions.values()))
        self.latest = max(self._versions, default=0)
        """Highest registered version; 0 if there is none."""

    async def register(self, arrow_schema: bytes, spark_schema: str, *, previous: int) -> int:
        """Register a schema as the next version, durably; returns the latest version if it is equal.

        Raises ``INVALID_SCHEMA``, ``SCHEMA_CHANGED``, ``SinkNotFound``.
        """
        latest = self.latest
        schema = SchemaRecord(max(latest + 1, self._least), self._sink.clock.wall_us(), arrow_schema, spark_schema)
        _check(schema)
        known = self._versions.get(latest)
        if known is not None and (known.arrow_schema, known.spark_schema) == (arrow_schema, spark_schema):
            await self._durable(latest)
            return latest
        if previous != latest:
            raise BrokerError(Reason.SCHEMA_CHANGED, sink=self._sink.name, compared=previous, latest=latest)
        self._check_bounds(schema)
        self._sink.check_alive()
        self._versions[schema.version] = schema
        self.latest = schema.version
        self._bytes += _size(schema)
        written = self._committer.write([PutSchema(self._sink.id, schema)])
        self._waiting[schema.version] = written
        written.add_done_callback(lambda _: self._waiting.pop(schema.version, None))
        await asyncio.shield(written)
        _log.info("schema was registered sink=%s version=%d", self._sink.name, schema.version)
        return schema.version

    def _check_bounds(self, schema: SchemaRecord) -> None:
        """Raise ``INVALID_SCHEMA`` unless a new version fits beside all others."""
        if len(self._versions) >= VERSIONS_MAX:
            raise BrokerError(
                Reason.INVALID_SCHEMA, f"a sink has at most {VERSIONS_MAX} versions of its schema", field="arrow_schema"
            )
        if self._bytes + _size(schema) > ALL_BYTES_MAX:
            raise BrokerError(
                Reason.INVALID_SCHEMA,
                f"all versions of a sink's schema have at most {ALL_BYTES_MAX} bytes together",
                field="arrow_schema",
            )

    async def get(self, version: int) -> SchemaRecord:
        """Return a version, or the latest for 0; raises ``SchemaNotFound``."""
        version = version or self.latest
        schema = self.stored(version)
        await self._durable(version)
        return schema

    async def list(self, after: int, limit: int) -> Sequence[SchemaRecord]:
        """Return the versions above ``after``, in order, including lost ones."""
        chosen = sorted(version for version in self._versions if version > after)[:limit]
        found = [self._versions[version] for version in chosen]
        for version in chosen[-1:]:  # the versions before it are durable with it
            await self._durable(version)
        return found

    def stored(self, version: int) -> SchemaRecord:
        """Return a version, durable or not; raises ``SchemaNotFound``."""
        found = self._versions.get(version)
        if found is None or found.lost:
            raise SchemaNotFound(self._sink.name, version, self.latest, damaged=found is not None)
        return found

    def check_page(self, version: int) -> None:
        """Raise ``InvalidPage`` for rows of a version that was never registered."""
        if version not in self._versions:
            known = f"its latest is {self.latest}" if self.latest else "it has none"
            raise InvalidPage(f"sink {self._sink.name!r} has no version {version} of its schema; {known}", field="body")

    async def _durable(self, version: int) -> None:
        waiting = self._waiting.get(version)
        if waiting is not None:
            await asyncio.shield(waiting)


def _check(schema: SchemaRecord) -> None:
    arrow, spark = len(schema.arrow_schema), len(schema.spark_schema.encode())
    if not 1 <= arrow <= SCHEMA_BYTES_MAX:
        raise InvalidValue(Reason.INVALID_SCHEMA, "arrow_schema", f"{arrow} bytes", f"1 to {SCHEMA_BYTES_MAX}")
    if spark > SCHEMA_BYTES_MAX:
        raise InvalidValue(Reason.INVALID_SCHEMA, "spark_schema", f"{spark} bytes", f"up to {SCHEMA_BYTES_MAX}")


def _size(schema: SchemaRecord) -> int:
    return len(schema.arrow_schema) + len(schema.spark_schema.encode())
