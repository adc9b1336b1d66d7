"""Spark reads from and writes to Holdfast with ``format("holdfast")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.versions import need_data_sources

if TYPE_CHECKING:
    from holdfast.spark.source import HoldfastDataSource

__all__ = ["HoldfastDataSource", "HoldfastSparkError"]


def __getattr__(name: str) -> object:
    """Import the data source when it is asked for: Spark 3.5 has none, and what needs none works there too."""
    if name != "HoldfastDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_data_sources()
    from holdfast.spark.source import HoldfastDataSource  # noqa: PLC0415 - not on every version of Spark

    return HoldfastDataSource
