"""Arrow types of Spark types, with times in UTC, for all supported versions of Spark. Imports pyarrow."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import DataType, StructType

_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_type).parameters else {}
"""Before Spark 4.2, times are always in UTC."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema.

    Raises `PySparkException` for a type without an Arrow equivalent.
    """
    return types.to_arrow_schema(schema, **_UTC)


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type.

    Raises `PySparkException` for a type without an Arrow equivalent.
    """
    return types.to_arrow_type(data_type, **_UTC)
