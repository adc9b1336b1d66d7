"""Differences between the supported versions of Spark: 4.0 to 4.3, and 3.5 without data sources.

One module has all of them: elsewhere a class is imported from here as if every version had it. Spark 3.5 has no Python
data sources, so `format("forebay")` needs 4.0; `write_together` and `Publishing` need none.
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
            """Base of writers, which Spark 3.5 does not have."""

        class DataSourceStreamWriter:
            """Base of writers, which Spark 3.5 does not have."""

        class DataSourceStreamReader:
            """Base of readers, which Spark 3.5 does not have."""

        class InputPartition:
            """Base of partitions, which Spark 3.5 does not have."""

        class WriterCommitMessage:
            """Base of messages, which Spark 3.5 does not have."""

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """Stream writer of Spark 4.0: it passes Arrow to every writer that is also an Arrow writer of batches."""

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
            """No limit."""

        @dataclass
        class ReadMaxRows(ReadLimit):
            """Limit in rows."""

            max_rows: int

        @dataclass
        class ReadMaxBytes(ReadLimit):
            """Limit in bytes."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Mark of a source that knows where ``Trigger.AvailableNow`` ends."""


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
    "need_data_sources",
    "need_read_limits",
]


def _types(*names: str) -> tuple[type[types.DataType], ...]:
    return tuple(getattr(types, name) for name in names if hasattr(types, name))


CALENDAR_INTERVAL_TYPES: Final = _types("CalendarIntervalType")
"""Type of Spark 4.0 and newer for intervals of months, days and microseconds."""

SPATIAL_TYPES: Final = _types("GeometryType", "GeographyType")
"""Types of Spark 4.1 and newer for shapes on a plane and on the earth."""

VARIANT_TYPES: Final = _types("VariantType")
"""Type of Spark 4.0 and newer for values of any shape."""

HAS_READ_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Spark tells a stream's source where a micro-batch begins, and asks it for a limit: 4.2 and newer."""

HAS_UNIX_SOCKETS: Final = HAS_READ_LIMITS
"""Python workers can be reached by a Unix socket without errors in the log: 4.2 and newer."""

_VERSION: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def need_data_sources() -> None:
    """Raise `ForebaySparkError` where this Spark has no Python data sources."""
    if _VERSION < (4, 0):
        raise ForebaySparkError(
            f'format("forebay") needs Spark 4.0 or newer; this is Spark {pyspark.__version__}.',
            "Write from foreachBatch with forebay.spark.together.write_together, "
            "or from foreach with forebay.spark.foreach.Publishing.",
        )


def need_read_limits(what: str, instead: str) -> None:
    """Raise `ForebaySparkError` where this Spark does not tell a source where a micro-batch begins."""
    if not HAS_READ_LIMITS:
        raise ForebaySparkError(f"{what} needs Spark 4.2 or newer; this is Spark {pyspark.__version__}.", instead)
