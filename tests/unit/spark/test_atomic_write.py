"""Several writes are visible at one instant or not at all; a stand-in for Spark runs each job in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from forebay.client import Client
from forebay.client.testing import TestBroker
from forebay.spark.atomic_write import Write, write_atomically
from forebay.spark.errors import ForebaySparkError


class Frame:
    """Fake of a DataFrame: a schema, and tasks that run when it is collected."""

    def __init__(self, *tasks: list[str | None], name: str = "value") -> None:
        self.schema = StructType([StructField(name, StringType())])
        self._batches = [pa.record_batch({name: pa.array(rows, pa.string())}) for rows in tasks]
        self._task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def mapInArrow(self, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str) -> Frame:
        self._task = task
        return self

    def collect(self) -> list[dict[str, Any]]:
        assert self._task is not None
        return [row for batch in self._batches for made in self._task(iter([batch])) for row in made.to_pylist()]


def write(frame: Frame, sink: str, **options: str) -> Write:
    return Write(cast(DataFrame, frame), sink, options)


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    with broker.client() as made:
        made.sinks.create("orders")
        made.sinks.create("others")
        yield made


def values(client: Client, sink: str) -> list[bytes]:
    return [record.value for record in client.replay(sink, partition=0) if hasattr(record, "value")]


def staged(client: Client) -> int:
    return sum(client.sinks.stats(sink).staged_records for sink in ("orders", "others"))


def test_records_staged_by_all_tasks_of_all_writes_are_committed(
    broker: TestBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    writes = [write(Frame(["a", "b"], ["c"]), "orders"), write(Frame(["d"], name="name"), "others")]

    with caplog.at_level(logging.INFO, "forebay.spark"):
        done = write_atomically(writes, from_query=False, endpoint=broker.endpoint)

    assert caplog.text.count("epoch was committed") == 2
    assert "failed" not in caplog.text, "nothing is undone"
    assert [epoch.sink for epoch in done.epochs] == ["orders", "others"]
    assert sorted(values(client, "orders")) == [b"a", b"b", b"c"]
    assert values(client, "others") == [b'{"name":"d"}']
    assert client.schemas.latest("others")[0] == 1
    assert staged(client) == 0


def test_a_frame_without_a_task_has_nothing_to_commit(broker: TestBroker, client: Client) -> None:
    done = write_atomically([write(Frame(), "orders")], from_query=False, endpoint=broker.endpoint)

    assert (done.epochs, done.already_committed) == ((), False)
    assert write_atomically(
        [write(Frame(), "orders"), write(Frame(["a"]), "others")], from_query=False, endpoint=broker.endpoint
    ).epochs[0].sink == "others"  # fmt: skip


def test_a_failed_write_discards_what_the_others_staged(broker: TestBroker, client: Client) -> None:
    writes = [write(Frame(["a"]), "orders"), write(Frame(["b"], [None]), "others")]

    with pytest.raises(ForebaySparkError, match="value is null"):
        write_atomically(writes, from_query=False, endpoint=broker.endpoint)

    assert values(client, "orders") == values(client, "others") == []
    assert staged(client) == 0


def test_an_interrupted_write_leaves_nothing_staged(broker: TestBroker, client: Client) -> None:
    class Interrupted(Frame):
        def collect(self) -> list[dict[str, Any]]:
            super().collect()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(
            [write(Frame(["a"]), "orders"), write(Interrupted(["b"]), "others")],
            from_query=False,
            endpoint=broker.endpoint,
        )

    assert staged(client) == 0


def test_a_commit_that_is_refused_leaves_nothing_behind(broker: TestBroker, client: Client) -> None:
    class Purged(Frame):
        def collect(self) -> list[dict[str, Any]]:
            found = super().collect()
            client.sinks.delete("orders")
            client.sinks.create("orders")
            return found

    with pytest.raises(ForebaySparkError):
        write_atomically(
            [write(Frame(["a"]), "orders"), write(Purged(["b"]), "others")],
            from_query=False,
            endpoint=broker.endpoint,
        )

    assert values(client, "orders") == values(client, "others") == []
    assert staged(client) == 0


def test_rows_that_do_not_fit_are_refused_before_their_job_runs(broker: TestBroker, client: Client) -> None:
    frame = Frame(["a"])
    frame.schema = StructType([StructField("value", StringType()), StructField("partition", StringType())])

    with pytest.raises(ForebaySparkError, match="partition is string"):
        write_atomically([write(frame, "orders")], from_query=False, endpoint=broker.endpoint)


@pytest.mark.parametrize(
    ("writes", "from_query", "why"),
    [
        ([], False, "list of writes is empty"),
        ([write(Frame(), "orders", delivery="at_least_once")], False, "'orders' is at least once"),
        ([write(Frame(), "orders", delivery="at_least_once")], True, "epoch_from_query requires delivery exactly_once"),
        ([write(Frame(), "orders", wrong="x")], False, "Option wrong is unknown"),
        ([write(Frame(), "orders", write_name="x")], False, "write_name is for streams"),
        (
            [write(Frame(), "orders"), write(Frame(), "others", endpoint="127.0.0.1:2")],
            False,
            "different brokers: sink 'orders' at 127.0.0.1:1, sink 'others' at 127.0.0.1:2",
        ),
        (
            [write(Frame(), "orders"), write(Frame(), "others", tls_ca_file="other.pem")],
            True,
            "the commit of sink 'others' would use those of sink 'orders'",
        ),
    ],
    ids=[
        "nothing",
        "at least once",
        "at least once of a query",
        "unknown option",
        "name of a batch",
        "two brokers",
        "two kinds of credentials",
    ],
)
def test_writes_that_cannot_be_committed_together_are_refused_before_a_broker_is_called(
    writes: list[Write], from_query: bool, why: str
) -> None:
    with pytest.raises(ForebaySparkError, match=why):
        write_atomically(writes, from_query=from_query, endpoint="127.0.0.1:1")


def test_outside_of_a_query_there_is_no_epoch_to_take(broker: TestBroker, client: Client) -> None:
    with pytest.raises(ForebaySparkError, match="names no query and no micro-batch"):
        write_atomically([write(Frame(["a"]), "orders")], from_query=True, endpoint=broker.endpoint)
