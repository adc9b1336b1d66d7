"""A write name passes to the query that has the checkpoint name, and to no other."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from forebay.client import Client, Stage, errors
from forebay.client.positions.position import PositionKey
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import WriteOptions, write_options
from forebay.spark.write.succession import KnownQueries

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
