"""Spark reads from and writes to Forebay with ``format("forebay")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.spark.errors import ForebaySparkError
from forebay.spark.versions import need_data_sources

if TYPE_CHECKING:
    from forebay.spark.source import ForebayDataSource

__all__ = ["ForebayDataSource", "ForebaySparkError"]


def __getattr__(name: str) -> object:
    """Import the data source when it is asked for: Spark 3.5 has none, and what needs none works there too."""
    if name != "ForebayDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_data_sources()
    from forebay.spark.source import ForebayDataSource  # noqa: PLC0415 - not on every version of Spark

    return ForebayDataSource
