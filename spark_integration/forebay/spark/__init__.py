"""Spark data source ``format("forebay")`` for reading from and writing to Forebay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.spark.errors import ForebaySparkError
from forebay.spark.versions import require_data_sources

if TYPE_CHECKING:
    from forebay.spark.source import ForebayDataSource

__all__ = ["ForebayDataSource", "ForebaySparkError"]


def __getattr__(name: str) -> object:
    """Import the data source on first access; Spark 3.5 has none, but can use the other modules."""
    if name != "ForebayDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_data_sources()
    from forebay.spark.source import ForebayDataSource  # noqa: PLC0415 - not on every version of Spark

    return ForebayDataSource
