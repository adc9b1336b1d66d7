"""A mistake is reported by the driver, in a message that ends with the corrective action."""

from __future__ import annotations

import socket

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker


def advice(error: pytest.ExceptionInfo[AnalysisException]) -> str:
    """Return the last line of the text, without what Spark puts after it."""
    return str(error.value).split(" SQLSTATE:", maxsplit=1)[0].strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "mode", "expected"),
    [
        ({"sink": "orders", "syncc": "x"}, "append", "Use one of: endpoint, sink"),
        ({}, "append", 'Add .option("sink"'),
        ({"sink": "missing"}, "append", "forebay sink create missing"),
        ({"sink": "orders", "page_bytes": "1"}, "append", "from 1024 to 1048576"),
        ({"sink": "orders"}, "overwrite", 'Use mode("append")'),
    ],
    ids=["unknown option", "no sink", "missing sink", "wrong value", "overwrite"],
)
def test_a_batch_write(
    spark: SparkSession, broker: TestBroker, options: dict[str, str], mode: str, expected: str
) -> None:
    writer = spark.range(1).write.format("forebay").mode(mode).options(endpoint=broker.endpoint, **options)

    with pytest.raises(AnalysisException) as error:
        writer.save()

    assert expected in advice(error)


def test_an_unreachable_broker(spark: SparkSession) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    options = {"endpoint": endpoint, "sink": "orders", "connect_timeout_s": "0.5"}

    with pytest.raises(AnalysisException, match=endpoint) as error:
        spark.range(1).write.format("forebay").mode("append").options(**options).save()
    assert "FOREBAY_ENDPOINT" in advice(error)

    with pytest.raises(AnalysisException, match=endpoint):
        spark.read.format("forebay").options(**options).load().count()
