"""TLS and tokens from the driver to every task, and nothing secret in what Spark shows or stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from forebay.broker.core.access.credentials import token_credential
from forebay.client import Client, ClientSettings, ReplayedRecord, TlsSettings, testing
from forebay.spark import ForebaySparkError
from forebay.spark.atomic_write import Write, write_atomically
from forebay.spark.foreach import ForeachPublisher
from forebay.spark.progress import Progress, QueryProgress
from forebay.spark.session import cluster_options
from tests.spark.conftest import TOKEN, TOKEN_VARIABLE
from tests.support.certificates import Authority, Pair
from tests.support.spark.streaming import Input, stream


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "spark-tests-ca")


@pytest.fixture(scope="module")
def own(authority: Authority) -> Pair:
    return authority.signed("spark-tests-client")


@pytest.fixture
def secured(authority: Authority, tmp_path: Path) -> Iterator[testing.TestBroker]:
    """Run a broker that wants a client's certificate and a token, with the sink ``orders`` of two partitions."""
    server = authority.signed("broker")
    hashes = tmp_path / "hashes"
    hashes.write_text(token_credential("tests", TOKEN, ["admin=*"]).line)
    with testing.broker(
        tls_server_cert_file=str(server.cert),
        tls_server_key_file=str(server.key),
        tls_client_ca_file=str(authority.cert),
        token_hashes_file=str(hashes),
    ) as running:
        yield running


@pytest.fixture
def client(secured: testing.TestBroker, authority: Authority, own: Pair) -> Iterator[Client]:
    tls = TlsSettings(str(authority.cert), str(own.cert), str(own.key))
    with secured.client(settings=ClientSettings(tls=tls, token=TOKEN)) as one:
        one.sinks.create("orders", partitions=2)
        yield one


@pytest.fixture
def where(spark: SparkSession, secured: testing.TestBroker, authority: Authority, own: Pair) -> dict[str, str]:
    """Options of the session for the broker."""
    return cluster_options(
        spark,
        endpoints=[secured.endpoint],
        tls_ca=authority.cert,
        tls_cert=own.cert,
        tls_key=own.key,
        token_env=TOKEN_VARIABLE,
    )


def values(client: Client, sink: str = "orders") -> list[bytes]:
    return sorted(
        record.value
        for partition in range(client.sinks.get(sink).settings.partitions)
        for record in client.replay(sink, partition=partition)
        if isinstance(record, ReplayedRecord)
    )


def shown(frame: DataFrame) -> str:
    """Everything that Spark says of how it would run it."""
    execution: Any = frame._jdf.queryExecution()
    return f"{execution.toString()}{execution.logical().toJSON()}{execution.optimizedPlan().toJSON()}"


def test_batches_are_written_and_read_with_files_that_spark_gave_to_its_hosts(
    spark: SparkSession, client: Client, where: dict[str, str]
) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) as value").repartition(3)

    rows.write.format("forebay").mode("append").options(**where, sink="orders").save()
    back = spark.read.format("forebay").options(**where, sink="orders").load()

    assert where["tls_key_file"] == "spark-tests-client.key"
    assert back.count() == 100
    assert values(client) == sorted(b"%d" % number for number in range(100))
    assert TOKEN not in shown(back)
    assert TOKEN not in repr(where)


def test_a_stream_writes_and_another_reads_and_neither_checkpoint_knows_the_token(
    spark: SparkSession, client: Client, where: dict[str, str], input_files: Input, tmp_path: Path
) -> None:
    for _ in range(2):
        input_files.add(20)
        query = stream(input_files.rows(spark), folder=tmp_path, **where).trigger(availableNow=True).start()
        query.awaitTermination()
        told = f"{query.lastProgress}{query._jsq.explainInternal(True)}"
        assert TOKEN not in told
    assert values(client) == sorted(input_files.written)

    seen: list[bytes] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        assert TOKEN not in shown(batch)
        seen.extend(bytes(row.value) for row in batch.collect())

    followed = spark.readStream.format("forebay").options(**where, sink="orders", subscription="default").load()
    checkpoint = tmp_path / "of-the-reader"
    followed.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).trigger(
        availableNow=True
    ).start().awaitTermination()

    assert sorted(seen) == sorted(input_files.written)
    folders = [tmp_path / "checkpoint", checkpoint]
    stored = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert [path for path in stored if TOKEN.encode() in path.read_bytes()] == []
    assert any(path.parent.name == "offsets" for path in stored)


def test_foreach_write_together_and_progress_connect_the_same_way(
    spark: SparkSession, client: Client, where: dict[str, str], input_files: Input, tmp_path: Path
) -> None:
    client.sinks.create("others")
    input_files.add(10)
    told: list[Progress] = []
    listener = QueryProgress(["orders"], told.append, where)
    spark.streams.addListener(listener)
    try:
        publishing = ForeachPublisher("orders", lambda row: row.value, where)
        query = input_files.rows(spark).writeStream.foreach(publishing)
        query.option("checkpointLocation", str(tmp_path / "foreach")).trigger(
            availableNow=True
        ).start().awaitTermination()
        rows = spark.range(5).selectExpr("cast(id as string) as value")
        write_atomically([Write(rows, "others", where)], from_query=False)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)

    assert values(client) == sorted(input_files.written)
    assert values(client, "others") == [b"%d" % number for number in range(5)]
    assert [one.sinks[0].pending for one in told if one.rows] == [10]


def test_the_error_of_a_task_without_a_token_says_what_to_set(
    spark: SparkSession, client: Client, where: dict[str, str]
) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) as value")
    others = {name: text for name, text in where.items() if name != "token_env"}

    with pytest.raises(PySparkException, match=r"TOKEN_REFUSED.*\n.*spark\.executorEnv\.FOREBAY_TOKEN"):
        rows.write.format("forebay").mode("append").options(**others, sink="orders").save()
    with pytest.raises(PySparkException, match="environment variable NOBODY_SET_IT: contains no token"):
        rows.write.format("forebay").mode("append").options(**{**where, "token_env": "NOBODY_SET_IT"}).save("orders")


def test_an_option_that_holds_a_token_is_refused_and_not_repeated(spark: SparkSession, where: dict[str, str]) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) as value")

    with pytest.raises(PySparkException, match="Option token would expose a secret") as caught:
        rows.write.format("forebay").mode("append").options(**where, sink="orders", token="a-secret").save()

    assert "a-secret" not in str(caught.value)


def test_a_plain_job_against_a_broker_with_tls_ends_at_once_with_what_to_set(
    spark: SparkSession, secured: testing.TestBroker
) -> None:
    with pytest.raises(PySparkException, match=r"the broker requires TLS[^\n]*\n.*tls_ca_file"):
        spark.read.format("forebay").options(endpoint=secured.endpoint, sink="orders").load().count()


def test_missing_parts_of_a_cluster_are_reported_before_anything_runs(
    spark: SparkSession, authority: Authority, tmp_path: Path
) -> None:
    same = tmp_path / authority.cert.name
    same.touch()

    for given, said in (
        ({"endpoints": []}, "No endpoint is named"),
        ({"endpoints": ["somewhere:port"]}, "host:port"),
        ({"tls_ca": tmp_path / "absent.pem"}, r"tls_ca_file: there is no file .*absent\.pem"),
        ({"tls_ca": authority.cert, "tls_cert": same}, "Two files have the same name"),
        ({"token_env": "NOBODY_SET_IT"}, "NOBODY_SET_IT was not set in the driver when Spark started"),
    ):
        wanted: dict[str, Any] = {"endpoints": ["broker:7461"], **given}
        with pytest.raises(ForebaySparkError, match=said):
            cluster_options(spark, **wanted)


def test_a_variable_that_spark_would_show_is_refused(spark: SparkSession) -> None:
    shown_as = f"spark.executorEnv.{TOKEN_VARIABLE}"
    conf: Any = spark.sparkContext._conf
    conf.set(shown_as, TOKEN)
    try:
        assert cluster_options(spark, endpoints=["broker:7461"], token_env=TOKEN_VARIABLE)
        conf.set("spark.redaction.regex", "(?i)password")
        with pytest.raises(ForebaySparkError, match=r"spark\.redaction\.regex does not match") as caught:
            cluster_options(spark, endpoints=["broker:7461"], token_env=TOKEN_VARIABLE)
    finally:
        conf._jconf.remove(shown_as).remove("spark.redaction.regex")

    assert TOKEN not in str(caught.value)
