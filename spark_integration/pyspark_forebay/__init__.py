"""Makes ``format("forebay")`` known to every Spark session without registration.

Spark imports each top-level module named ``pyspark_*`` when a session first meets an unknown format, also in sessions
that never use Forebay: importing this must stay cheap, and must never fail.
"""

from __future__ import annotations

from forebay.spark.source import ForebayDataSource as DefaultSource

__all__ = ["DefaultSource"]
