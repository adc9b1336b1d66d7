"""Rows with a schema go into the sink ``orders`` and are read from there, for the tests of them."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from forebay.client import StoredPage
from forebay.client.testing import TestBroker


def write(rows: DataFrame, broker: TestBroker, **options: str) -> None:
    """Append rows to ``orders``."""
    where = {"endpoint": broker.endpoint, "sink": "orders"}
    rows.write.format("forebay").mode("append").options(**where, **options).save()


def read(spark: SparkSession, broker: TestBroker, **options: str) -> DataFrame:
    """Read ``orders``."""
    return spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders", **options).load()


def pages(broker: TestBroker) -> list[StoredPage]:
    """The pages of ``orders``."""
    with broker.client() as client:
        return [
            page
            for partition in range(client.sinks.get("orders").settings.partitions)
            for page in client.replay_pages("orders", partition=partition)
            if isinstance(page, StoredPage)
        ]


def refusal(rows: DataFrame, broker: TestBroker, **options: str) -> str:
    """Why a write is refused."""
    with pytest.raises(PySparkException) as refused:
        write(rows, broker, **options)
    return str(refused.value)
