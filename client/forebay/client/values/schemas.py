"""Schema of a sink's rows, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Schema:
    """Version of the schema of a sink's rows."""

    version: int
    """Number of the version, from 1."""

    registered_at: datetime | None
    """Time of registration; ``None`` for a version that the broker lost when its store was damaged."""

    arrow_schema: bytes = b""
    """Schema message in Arrow's IPC stream format; omitted by ``list``. See ``forebay.client.arrow``."""

    spark_schema: str = ""
    """Spark schema as JSON, or empty; omitted by ``list``."""

    incarnation: str = ""
    """Incarnation of the sink; omitted by ``list``. Rows with this version belong only there."""
