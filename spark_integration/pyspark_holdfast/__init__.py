"""Makes ``format("holdfast")`` known to every Spark session without registration.

Spark imports each top-level module named ``pyspark_*`` when a session first meets an unknown format, also in sessions
that never use Holdfast: importing this must stay cheap, and must never fail.
"""

from __future__ import annotations

from holdfast.spark.source import HoldfastDataSource as DefaultSource

__all__ = ["DefaultSource"]
