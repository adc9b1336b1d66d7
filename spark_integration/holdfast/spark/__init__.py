"""Spark reads from and writes to Holdfast with ``format("holdfast")``."""

from __future__ import annotations

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.source import HoldfastDataSource

__all__ = ["HoldfastDataSource", "HoldfastSparkError"]
