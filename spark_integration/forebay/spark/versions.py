"""Differences between the supported versions of Spark: 4.0 to 4.3, and 3.5 without data sources.

Other modules import classes from here as if every version had them. Spark 3.5 has no Python data sources, so that
`format("forebay")` requires 4.0; `write_atomically` and `ForeachPublisher` do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql import types

from forebay.spark.errors import ForebaySparkError

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.datasource import (
            DataSourceArrowWriter,
            DataSourceStreamReader,
            DataSourceStreamWriter,
            InputPartition,
            WriterCommitMessage,
        )
    except ImportError:

        class DataSourceArrowWriter:
            """Substitute for the base class of writers, missing in Spark 3.5."""

        class DataSourceStreamWriter:
            """Substitute for the base class of writers, missing in Spark 3.5."""

        class DataSourceStreamReader:
            """Substitute for the base class of readers, missing in Spark 3.5."""

        class InputPartition:
            """Substitute for the base class of partitions, missing in Spark 3.5."""

        class WriterCommitMessage:
            """Substitute for the base class of messages, missing in Spark 3.5."""

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """Stream writer of Spark 4.0, which passes Arrow to writers that are also Arrow batch writers."""

    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:

        class ReadLimit:
            """Limit of a micro-batch."""

        class ReadAllAvailable(ReadLimit):
            """Unlimited micro-batch."""

        @dataclass
        class ReadMaxRows(ReadLimit):
            """Limit in rows."""

            max_rows: int

        @dataclass
        class ReadMaxBytes(ReadLimit):
            """Limit in bytes."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Marker of a source that knows the end of ``Trigger.AvailableNow``."""


__all__ = [
    "CALENDAR_INTERVAL_TYPES",
    "HAS_READ_LIMITS",
    "HAS_UNIX_SOCKETS",
    "SPATIAL_TYPES",
    "VARIANT_TYPES",
    "DataSourceArrowWriter",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "require_data_sources",
    "require_read_limits",
]


def _types(*names: str) -> tuple[type[types.DataType], ...]:
    return tuple(getattr(types, name) for name in names if hasattr(types, name))


CALENDAR_INTERVAL_TYPES: Final = _types("CalendarIntervalType")
"""Type for intervals of months, days and microseconds, in Spark 4.0 and newer."""

SPATIAL_TYPES: Final = _types("GeometryType", "GeographyType")
"""Types for planar and geographic shapes, in Spark 4.1 and newer."""

VARIANT_TYPES: Final = _types("VariantType")
"""Type for semi-structured values, in Spark 4.0 and newer."""

HAS_READ_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Spark 4.2 and newer pass the start of a micro-batch to a stream source, and ask it for a limit."""

HAS_UNIX_SOCKETS: Final = HAS_READ_LIMITS
"""Spark 4.2 and newer reach Python workers by a Unix socket without errors in the log."""

_VERSION: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def require_data_sources() -> None:
    """Raise `ForebaySparkError` if this Spark has no Python data sources."""
    if _VERSION < (4, 0):
        raise ForebaySparkError(
            f'format("forebay") requires Spark 4.0 or newer; this is Spark {pyspark.__version__}.',
            "Write from foreachBatch with forebay.spark.atomic_write.write_atomically, "
            "or from foreach with forebay.spark.foreach.ForeachPublisher.",
        )


def require_read_limits(what: str, instead: str) -> None:
    """Raise `ForebaySparkError` if this Spark does not pass the start of a micro-batch to a source."""
    if not HAS_READ_LIMITS:
        raise ForebaySparkError(f"{what} requires Spark 4.2 or newer; this is Spark {pyspark.__version__}.", instead)
