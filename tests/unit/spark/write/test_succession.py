"""A write name passes to the query that has the checkpoint name, and to no other."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from forebay.client import Client, Stage, errors
from forebay.client.positions.position import DOCUMENT_BYTES_MAX, FORMER_MAX, PositionKey, SavedPosition
from forebay.client.testing import TestBroker
from forebay.spark.connection.broker import SinkFacts
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, WriteOptions, write_options
from forebay.spark.write.epochs import StagedAttempt, WriteRun
from forebay.spark.write.record_schema import RowPlan
from forebay.spark.write.succession import KnownQueries
from forebay.spark.write.writer import WriteJob, WrittenTask, commit_job

FORMER, NEXT = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    """A client of a broker with the sink ``orders``."""
    with broker.client() as client:
        client.sinks.create("orders")
        yield client


def writing(broker: TestBroker, **options: str) -> WriteOptions:
    given = {"sink": "orders", "endpoint": broker.endpoint, "checkpoint_store": "broker:", "checkpoint_name": "billing"}
    return write_options({**given, **options}, {}, is_stream=True)


def stage(client: Client, query: str, epoch: int = 0) -> Stage:
    return Stage(f"{query}:orders", epoch, run=query, ticket=1, incarnation=client.sinks.get("orders").incarnation)


def may_take_over(options: WriteOptions, made: Stage, known: KnownQueries | None = None) -> bool:
    """Ask as a task of a new process does, or as one that knows some queries."""
    assert options.checkpoint is not None
    return (known or KnownQueries()).may_take_over(options, options.checkpoint, made)


def test_the_first_query_of_a_name_takes_nothing_over(broker: TestBroker, client: Client) -> None:
    assert not may_take_over(writing(broker), stage(client, FORMER))
    assert not may_take_over(writing(broker), stage(client, FORMER))


def test_a_query_after_it_takes_over_in_its_first_micro_batch_and_in_each_attempt_of_it(
    broker: TestBroker, client: Client
) -> None:
    may_take_over(writing(broker), stage(client, FORMER))

    assert [may_take_over(writing(broker), stage(client, NEXT)) for _ in range(3)] == [True, True, True]
    assert not may_take_over(writing(broker), stage(client, NEXT, epoch=1))


def test_a_query_that_began_before_the_option_was_set_is_recorded_when_it_continues(
    broker: TestBroker, client: Client
) -> None:
    assert not may_take_over(writing(broker), stage(client, FORMER, epoch=41))

    assert may_take_over(writing(broker), stage(client, NEXT))


def test_a_query_that_was_replaced_is_notified_by_which_one(broker: TestBroker, client: Client) -> None:
    may_take_over(writing(broker), stage(client, FORMER))
    may_take_over(writing(broker), stage(client, NEXT))

    with pytest.raises(ForebaySparkError, match=f"{FORMER} was replaced: query {NEXT} writes to sink 'orders'"):
        may_take_over(writing(broker), stage(client, FORMER, epoch=7))

    may_take_over(writing(broker, takeover="true"), stage(client, FORMER, epoch=7))
    assert not may_take_over(writing(broker), stage(client, FORMER, epoch=8))


def test_a_query_that_was_replaced_in_its_first_micro_batch_does_not_revoke_the_name_of_the_next(
    broker: TestBroker, client: Client
) -> None:
    last = str(uuid.UUID(int=3))
    for query in (FORMER, NEXT, last):
        may_take_over(writing(broker), stage(client, query))

    for query in (FORMER, NEXT):
        with pytest.raises(ForebaySparkError, match=f"{query} was replaced: query {last} writes"):
            may_take_over(writing(broker), stage(client, query))
    assert may_take_over(writing(broker), stage(client, last))

    assert may_take_over(writing(broker, takeover="true"), stage(client, FORMER))
    with pytest.raises(ForebaySparkError, match=f"{last} was replaced: query {FORMER} writes"):
        may_take_over(writing(broker), stage(client, last))
    assert may_take_over(writing(broker), stage(client, FORMER)), "it was replaced once, and is no longer"


def test_a_name_that_passes_on_without_end_keeps_a_document_of_its_size(broker: TestBroker, client: Client) -> None:
    queries = [str(uuid.UUID(int=number)) for number in range(1, FORMER_MAX + 4)]
    for query in queries:
        may_take_over(writing(broker), stage(client, query))

    [document] = [saved.document for saved in client.positions.list()]

    assert len(document) < DOCUMENT_BYTES_MAX // 2
    saved = SavedPosition.decode("key", document)
    assert (saved.owner, saved.former) == (queries[-1], tuple(queries[-2 : -2 - FORMER_MAX : -1]))


def test_a_query_that_is_replaced_between_its_tasks_and_its_commit_commits_nothing(
    broker: TestBroker, client: Client
) -> None:
    options = writing(broker)
    may_take_over(options, stage(client, FORMER))
    made = replace(stage(client, NEXT), write_name="orders", takeover=may_take_over(options, stage(client, NEXT)))
    with client.publisher("orders", stage=made) as publisher:
        publisher.send(b"row")
        publisher.flush()
        written = WrittenTask(1, 1, 0, StagedAttempt(made, publisher.staged().parts))
    facts = SinkFacts(1, 1 << 20, 1 << 16, made.incarnation)
    job = WriteJob(options, RowPlan(Rows.RECORD, ("value",)), facts, WriteRun(1, None, made.incarnation))
    last = str(uuid.UUID(int=3))
    may_take_over(options, stage(client, last))

    with pytest.raises(ForebaySparkError, match=f"{NEXT} was replaced: query {last} writes"):
        commit_job(job.options, [written])

    assert client.sinks.stats("orders").records == 0
    commit_job(writing(broker, takeover="true"), [written])
    assert client.sinks.stats("orders").records == 1


def test_names_namespaces_and_sinks_of_former_incarnations_are_apart(broker: TestBroker, client: Client) -> None:
    may_take_over(writing(broker), stage(client, FORMER))

    assert not may_take_over(writing(broker, checkpoint_name="other"), stage(client, NEXT))
    assert not may_take_over(writing(broker, checkpoint_namespace="other"), stage(client, NEXT))
    client.sinks.delete("orders")
    client.sinks.create("orders")
    assert not may_take_over(writing(broker), stage(client, NEXT))


def test_a_process_asks_the_store_once_for_a_query_that_continues(broker: TestBroker, client: Client) -> None:
    known = KnownQueries()
    may_take_over(writing(broker), stage(client, FORMER, epoch=1), known)
    client.positions.delete(PositionKey("spark", "billing.write", "orders", 0))

    assert not may_take_over(writing(broker), stage(client, FORMER, epoch=2), known)

    assert list(client.positions.list()) == []


def test_an_unavailable_store_ends_only_the_first_micro_batch(
    broker: TestBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, and not listening: connections are refused
        options = writing(broker, checkpoint_store=f"postgresql://127.0.0.1:{bound.getsockname()[1]}/positions")

        assert not may_take_over(options, stage(client, FORMER, epoch=3))
        assert "the query is not recorded sink=orders name=billing" in caplog.text
        with pytest.raises(errors.PositionStoreUnavailable):
            may_take_over(options, stage(client, FORMER))
