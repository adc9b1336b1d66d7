"""Arrow types of Spark types, with times in UTC, by the signature that this version of Spark has. Imports pyarrow."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import DataType, StructType

_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_type).parameters else {}
"""Before Spark 4.2 times are always in UTC."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of Spark's. Raises `PySparkException` for a type that Arrow does not have."""
    return types.to_arrow_schema(schema, **_UTC)


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of Spark's. Raises `PySparkException` for a type that Arrow does not have."""
    return types.to_arrow_type(data_type, **_UTC)
