"""Demo: a Spark job through an outage of its remote system and kills of the broker.

from __future__ import annotations
