"""A query that lost its checkpoint starts at its saved position, any other at the later of both."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.client import Client, Record, errors
from forebay.client.positions.stores import memory
from forebay.client.positions.stores.memory import MemoryPositions
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


STARTED: list[SavedPositions] = []
"""Positions that the running test has used."""


@pytest.fixture(autouse=True)
def closed(broker: TestBroker) -> Iterator[None]:
    """Close them, so that no thread is left to other tests."""
    yield
    while STARTED:
        STARTED.pop().close()


def saved(store: str = "broker:", *, accepts_loss: bool = False) -> SavedPositions:
    """Return the positions of a query that starts."""
    STARTED.append(SavedPositions(CheckpointOptions(store, "billing"), "orders", accepts_loss=accepts_loss))
    return STARTED[-1]


def begun(query: SavedPositions, client: Client, default: dict[int, int]) -> dict[int, int]:
    """Start a query without its checkpoint and plan its first micro-batch; return where it begins."""
    start = query.begin(client, view(client, "orders"), lambda partitions: default)
    return query.resume(client, view(client, "orders"), start)


def run_until(client: Client, committed: dict[int, int], store: str = "broker:") -> None:
    """Run a query from its start to a committed micro-batch."""
    query = saved(store)
    begun(query, client, {0: 0, 1: 0})
    query.save(committed)
    query.close()


@pytest.fixture(params=["broker:", "file://"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The store of the broker, and that of a directory."""
    found: str = request.param
    return f"{found}{tmp_path}/positions" if found == "file://" else found


def test_a_query_begins_at_its_own_start_where_nothing_is_saved(client: Client, store: str) -> None:
    assert begun(saved(store), client, {0: 10, 1: 0}) == {0: 10, 1: 0}


def test_a_query_without_its_checkpoint_begins_where_the_last_commit_was_saved(client: Client, store: str) -> None:
    run_until(client, {0: 7, 1: 0}, store)

    assert begun(saved(store), client, {0: 0, 1: 0}) == {0: 7, 1: 0}


def test_a_first_micro_batch_that_failed_begins_at_the_same_place_again(client: Client) -> None:
    first = saved()
    begun(first, client, {0: 10, 1: 0})
    first.close()
    client.publish("orders", [Record(b"x")], partition=0)

    assert begun(saved(), client, {0: 11, 1: 0}) == {0: 10, 1: 0}


def test_the_start_of_a_query_is_not_saved_before_its_first_micro_batch_is_known(client: Client) -> None:
    query = saved()
    assert query.begin(client, view(client, "orders"), lambda partitions: {0: 10, 1: 0}) == {0: 10, 1: 0}
    assert list(client.positions.list("spark/")) == []

    # Spark runs a first micro-batch again that was planned before
    assert query.resume(client, view(client, "orders"), {0: 5, 1: 0}) == {0: 5, 1: 0}
    query.close()

    assert begun(saved(), client, {0: 11, 1: 0}) == {0: 5, 1: 0}


def test_a_start_is_asked_for_only_where_no_saved_position_is_usable(client: Client) -> None:
    run_until(client, {0: 7, 1: 0})
    asked: list[frozenset[int]] = []

    def default(partitions: frozenset[int]) -> dict[int, int]:
        asked.append(partitions)
        return dict.fromkeys(range(2), 3)

    assert saved().begin(client, view(client, "orders"), default) == {0: 7, 1: 0}
    assert asked == []
    [first] = [found.key for found in client.positions.list("spark/") if found.key.partition == 0]
    client.positions.delete(first)

    assert saved().begin(client, view(client, "orders"), default) == {0: 3, 1: 0}
    assert asked == [frozenset({0})]


@pytest.mark.parametrize("accepts_loss", [False, True])
def test_a_query_that_replaces_a_running_one_starts_at_records_that_are_newer_than_its_view(
    client: Client, accepts_loss: bool
) -> None:
    former = saved()
    begun(former, client, {0: 0, 1: 0})
    seen = view(client, "orders")
    client.publish("orders", [Record(b"x") for _ in range(3)], partition=0)
    former.save({0: 13, 1: 0})

    query = saved(accepts_loss=accepts_loss)
    assert query.begin(client, seen, lambda partitions: {0: 0, 1: 0}) == {0: 13, 1: 0}
    assert query.resume(client, seen, {0: 3, 1: 0}) == {0: 13, 1: 0}

    with pytest.raises(errors.PositionFenced):
        former.save({0: 14, 1: 0})
    query.close()
    former.close()


class Watched(MemoryPositions):
    """Store that calls back before its next write, and counts how often it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.before_write: Callable[[], None] | None = None
        self.closed = 0

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        act, self.before_write = self.before_write, None
        if act is not None:
            act()
        return super().compare_and_write(key, document, expected)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The store ``memory:watched``."""
    store = Watched()
    monkeypatch.setitem(memory._SHARED, "watched", store)
    return store


def test_a_position_that_is_saved_during_the_takeover_is_used_if_it_is_newer_than_the_view(
    client: Client, watched: Watched
) -> None:
    former = saved("memory:watched")
    begun(former, client, {0: 0, 1: 0})

    def go_on() -> None:
        client.publish("orders", [Record(b"x") for _ in range(3)], partition=0)
        former.save({0: 13, 1: 0})

    query = saved("memory:watched")
    seen = view(client, "orders")
    watched.before_write = go_on

    assert query.resume(client, seen, {0: 3, 1: 0}) == {0: 13, 1: 0}
    query.close()
    former.close()


def test_the_store_is_closed_after_the_last_save_also_if_that_fails(client: Client, watched: Watched) -> None:
    query = saved("memory:watched")
    begun(query, client, {0: 0, 1: 0})
    successor = saved("memory:watched")
    begun(successor, client, {0: 0, 1: 0})
    assert watched.closed == 0

    successor.close()
    assert watched.closed == 1
    with pytest.raises(errors.PositionFenced):
        query.save({0: 7, 1: 0})
    query.close()
    query.close()

    assert watched.closed == 2


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
    begun(query, client, {0: 0, 1: 0})
    client.sinks.update("orders", partitions=3)
    client.publish("orders", [Record(b"x")], partition=2)

    assert query.resume(client, view(client, "orders"), {0: 4, 1: 0}) == {0: 4, 1: 0, 2: 0}
    query.save({0: 4, 1: 0, 2: 1})
    query.close()

    assert begun(saved(), client, {}) == {0: 4, 1: 0, 2: 1}


def test_a_partition_that_was_added_while_a_query_was_stopped_begins_at_its_earliest_record(
    client: Client, store: str
) -> None:
    run_until(client, {0: 7, 1: 0}, store)
    client.sinks.update("orders", partitions=3)
    for _ in range(3):
        client.publish("orders", [Record(b"x")], partition=2)
    client.subscriptions.settle("orders", offsets={2: 1})

    assert begun(saved(store), client, {0: 10, 1: 0, 2: 3}) == {0: 7, 1: 0, 2: 1}


def test_a_start_that_is_refused_leaves_no_position_in_another_partition(client: Client) -> None:
    run_until(client, {0: 7, 1: 0})
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=3)
    with pytest.raises(errors.PositionUnusable):
        begun(saved(), client, {0: 0, 1: 0, 2: 0})

    assert [found.key.partition for found in client.positions.list("spark/")] == [0, 1]


def test_a_position_of_a_deleted_sink_is_an_error_with_both_numbers_unless_loss_is_accepted(client: Client) -> None:
    run_until(client, {0: 7, 1: 0})
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders", partitions=2)

    with pytest.raises(errors.PositionUnusable, match=r"position 7 .* former sink .* would start at 0"):
        begun(saved(), client, {0: 0, 1: 0})

    assert begun(saved(accepts_loss=True), client, {0: 0, 1: 0}) == {0: 0, 1: 0}


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
    begun(former, client, {0: 0, 1: 0})
    run_until(client, {0: 7, 1: 0})

    with pytest.raises(errors.PositionFenced, match="another consumer named 'billing' took over partition 0"):
        former.save({0: 9, 1: 0})
    former.close()

    assert begun(saved(), client, {}) == {0: 7, 1: 0}


def test_a_store_that_is_unreachable_delays_a_micro_batch_once_and_is_tried_again_in_the_background(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    positions = tmp_path / "positions"
    query = saved(f"file://{positions}")
    begun(query, client, {0: 0, 1: 0})
    with open(positions / ".lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process that hangs

        query.save({0: 3, 1: 0})

        assert "a position is not saved yet sink=orders name=billing" in caplog.text
    query.save({0: 5, 1: 0})
    query.close()
    assert begun(saved(f"file://{positions}"), client, {}) == {0: 5, 1: 0}
