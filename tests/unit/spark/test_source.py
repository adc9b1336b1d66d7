"""Errors are raised in the driver, before a task starts, and end with a remedy."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from pyspark.sql.types import StringType, StructField, StructType

import pyspark_forebay
from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource, ForebaySparkError

ROWS = StructType([StructField("value", StringType())])


def source(broker: TestBroker | None = None, **options: str) -> ForebayDataSource:
    if broker is not None:
        options["endpoint"] = broker.endpoint
    return ForebayDataSource(options)


def unused_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def last_line(error: pytest.ExceptionInfo[ForebaySparkError]) -> str:
    return str(error.value).splitlines()[-1]


def test_spark_finds_the_source_by_its_name() -> None:
    assert pyspark_forebay.DefaultSource is ForebayDataSource
    assert ForebayDataSource.name() == "forebay"


def test_finding_the_source_loads_neither_grpc_nor_arrow() -> None:
    program = "import sys, pyspark_forebay; print(*({'grpc', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == ""


@pytest.mark.parametrize("make", ["writer", "streamWriter"])
def test_a_missing_sink_is_named_with_the_command_that_makes_it(broker: TestBroker, make: str) -> None:
    with pytest.raises(ForebaySparkError, match="'nowhere'") as error:
        getattr(source(broker, sink="nowhere"), make)(ROWS, False)

    assert "forebay sink create nowhere" in last_line(error)


@pytest.mark.parametrize("make", ["writer", "streamWriter"])
def test_an_unreachable_broker_is_named_with_the_way_to_set_it(make: str) -> None:
    endpoint = unused_endpoint()

    with pytest.raises(ForebaySparkError, match=endpoint) as error:
        getattr(source(endpoint=endpoint, sink="orders", connect_timeout_s="0.3"), make)(ROWS, False)

    assert "forebay serve" in last_line(error)
    assert "FOREBAY_ENDPOINT" in last_line(error)


def test_a_read_says_the_same() -> None:
    endpoint = unused_endpoint()
    reader = source(endpoint=endpoint, sink="orders", connect_timeout_s="0.3")

    with pytest.raises(ForebaySparkError, match=endpoint):
        reader.reader(reader.schema()).partitions()


def test_a_sink_is_made_where_that_was_asked_for(broker: TestBroker) -> None:
    writer = source(broker, sink="made", create_sink="true", partitions="3").writer(ROWS, False)

    assert writer.job.facts.partitions == 3
    with broker.client() as client:
        assert client.sinks.get("made").settings.partitions == 3


def test_a_sink_that_exists_is_taken_as_it_is(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("there", partitions=2)

    writer = source(broker, sink="there", create_sink="true", partitions="3").writer(ROWS, False)

    assert writer.job.facts.partitions == 2


def test_pages_stay_small_where_the_sink_is(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("small", max_disk_cache=100, max_total_bytes=100_000)

    facts = source(broker, sink="small").writer(ROWS, False).job.facts

    assert (facts.page_records_max, facts.page_bytes_max) == (25, 25_000)


def test_a_name_that_no_sink_can_have_is_refused(broker: TestBroker) -> None:
    with pytest.raises(ForebaySparkError) as error:
        source(broker, sink="Not A Name", create_sink="true").writer(ROWS, False)

    assert "a-z" in last_line(error)


def test_overwriting_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="cannot be overwritten") as error:
        source(sink="orders").writer(ROWS, True)

    assert 'mode("append")' in last_line(error)


def test_a_wrong_schema_is_reported_before_the_broker_is_asked() -> None:
    schema = StructType([StructField("value", StringType()), StructField("partition", StringType())])

    with pytest.raises(ForebaySparkError, match="partition is string"):
        source(endpoint=unused_endpoint(), sink="orders").writer(schema, False)


def test_a_read_has_the_schema_of_the_source_and_no_other() -> None:
    with pytest.raises(ForebaySparkError, match="schema"):
        source(endpoint=unused_endpoint(), sink="orders", connect_timeout_s="0.3").reader(ROWS)
