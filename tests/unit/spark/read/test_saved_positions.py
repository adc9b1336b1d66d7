"""A query that lost its checkpoint starts at its saved position, any other at the later of both."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client import Client, Record, errors
from forebay.client.testing import TestBroker
from forebay.spark.options.checkpoint import CheckpointOptions
from forebay.spark.read.saved_positions import SavedPositions
from forebay.spark.read.sink_view import view


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    """A client of a broker with the sink ``orders`` of two partitions and ten records in the first."""
    with broker.client() as client:
        client.sinks.create("orders", partitions=2, buffer_page_size=1)
        client.publish("orders", [Record(b"x") for _ in range(10)], partition=0)
        yield client


def saved(store: str = "broker:", *, accepts_loss: bool = False) -> SavedPositions:
    """Return the positions of a query that starts."""
    return SavedPositions(CheckpointOptions(store, "billing"), "orders", accepts_loss=accepts_loss)


def run_until(client: Client, committed: dict[int, int], store: str = "broker:") -> None:
    """Run a query from its start to a committed micro-batch."""
    query = saved(store)
    query.begin(client, view(client, "orders"), {0: 0, 1: 0})
    query.save(committed)
    query.close()


@pytest.fixture(params=["broker:", "file://"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The store of the broker, and that of a directory."""
    found: str = request.param
    return f"{found}{tmp_path}/positions" if found == "file://" else found


def test_a_query_begins_at_its_own_start_where_nothing_is_saved(client: Client, store: str) -> None:
    assert saved(store).begin(client, view(client, "orders"), {0: 10, 1: 0}) == {0: 10, 1: 0}


def test_a_query_without_its_checkpoint_begins_where_the_last_commit_was_saved(client: Client, store: str) -> None:
    run_until(client, {0: 7, 1: 0}, store)

    assert saved(store).begin(client, view(client, "orders"), {0: 0, 1: 0}) == {0: 7, 1: 0}


def test_a_first_micro_batch_that_failed_begins_at_the_same_place_again(client: Client) -> None:
    first = saved()
    first.begin(client, view(client, "orders"), {0: 10, 1: 0})
    first.close()
    client.publish("orders", [Record(b"x")], partition=0)

    assert saved().begin(client, view(client, "orders"), {0: 11, 1: 0}) == {0: 10, 1: 0}


@pytest.mark.parametrize(("checkpoint", "start"), [(3, 7), (7, 7), (9, 9)])
def test_the_later_of_checkpoint_and_saved_position_is_used(
    client: Client, checkpoint: int, start: int, caplog: pytest.LogCaptureFixture
) -> None:
    run_until(client, {0: 7, 1: 0})
    caplog.set_level(logging.INFO)

    assert saved().resume(client, view(client, "orders"), {0: checkpoint, 1: 0}) == {0: start, 1: 0}

    told = [record.getMessage() for record in caplog.records if record.name.endswith("saved_positions")]
    [line] = told
    assert ("instead of Spark's checkpoint" in line) == (checkpoint < 7)
    assert ("saved={0: 7} instead_of={0: 3}" in line) == (checkpoint < 7)


def test_a_query_that_continues_asks_the_store_once(client: Client) -> None:
    query = saved()
    assert query.resume(client, view(client, "orders"), {0: 3, 1: 0}) == {0: 3, 1: 0}
    client.positions.delete(next(iter(client.positions.list("spark/"))).key)

    assert query.resume(client, view(client, "orders"), {0: 5, 1: 0}) == {0: 5, 1: 0}
    query.close()


def test_a_partition_that_was_added_is_saved_like_the_others(client: Client) -> None:
    query = saved()
    query.begin(client, view(client, "orders"), {0: 0, 1: 0})
    client.sinks.update("orders", partitions=3)
    client.publish("orders", [Record(b"x")], partition=2)

    assert query.resume(client, view(client, "orders"), {0: 4, 1: 0}) == {0: 4, 1: 0, 2: 0}
    query.save({0: 4, 1: 0, 2: 1})
    query.close()

    assert saved().begin(client, view(client, "orders"), {}) == {0: 4, 1: 0, 2: 1}


def test_a_partition_that_was_added_while_a_query_was_stopped_begins_at_its_earliest_record(
    client: Client, store: str
) -> None:
    run_until(client, {0: 7, 1: 0}, store)
    client.sinks.update("orders", partitions=3)
    for _ in range(3):
        client.publish("orders", [Record(b"x")], partition=2)
    client.subscriptions.settle("orders", offsets={2: 1})

    assert saved(store).begin(client, view(client, "orders"), {0: 10, 1: 0, 2: 3}) == {0: 7, 1: 0, 2: 1}


def test_a_start_that_is_refused_leaves_no_position_in_another_partition(client: Client) -> None:
    run_until(client, {0: 7, 1: 0})
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=3)
    with pytest.raises(errors.PositionUnusable):
        saved().begin(client, view(client, "orders"), {0: 0, 1: 0, 2: 0})

    assert [found.key.partition for found in client.positions.list("spark/")] == [0, 1]


def test_a_position_of_a_deleted_sink_is_an_error_with_both_numbers_unless_loss_is_accepted(client: Client) -> None:
    run_until(client, {0: 7, 1: 0})
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=2)

    with pytest.raises(errors.PositionUnusable, match=r"position 7 .* former sink .* would start at 0"):
        saved().begin(client, view(client, "orders"), {0: 0, 1: 0})

    assert saved(accepts_loss=True).begin(client, view(client, "orders"), {0: 0, 1: 0}) == {0: 0, 1: 0}


def test_a_position_that_does_not_fit_the_sink_leaves_spark_s_checkpoint_alone(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    run_until(client, {0: 7, 1: 0})
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=2)
    client.publish("orders", [Record(b"x") for _ in range(10)], partition=0)

    assert saved().resume(client, view(client, "orders"), {0: 2, 1: 0}) == {0: 2, 1: 0}
    assert "a saved position is not used: it is of another incarnation" in caplog.text


def test_a_query_that_was_replaced_ends_and_writes_nothing(client: Client) -> None:
    former = saved()
    former.begin(client, view(client, "orders"), {0: 0, 1: 0})
    run_until(client, {0: 7, 1: 0})

    with pytest.raises(errors.PositionFenced, match="another consumer named 'billing' took over partition 0"):
        former.save({0: 9, 1: 0})
    former.close()

    assert saved().begin(client, view(client, "orders"), {}) == {0: 7, 1: 0}


def test_a_store_that_is_unreachable_delays_a_micro_batch_once_and_is_tried_again_in_the_background(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    positions = tmp_path / "positions"
    query = saved(f"file://{positions}")
    query.begin(client, view(client, "orders"), {0: 0, 1: 0})
    with open(positions / ".lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process that hangs

        query.save({0: 3, 1: 0})

        assert "a position is not saved yet sink=orders name=billing" in caplog.text
    query.save({0: 5, 1: 0})
    query.close()
    assert saved(f"file://{positions}").begin(client, view(client, "orders"), {}) == {0: 5, 1: 0}
