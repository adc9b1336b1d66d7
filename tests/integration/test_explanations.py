"""Explanations, gaps, purges and drops over gRPC, and the commands for them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import (
    Client,
    DropReason,
    Overflow,
    Record,
    RecordPlace,
    RecordState,
    SettleOutcome,
    SinkNotFound,
    SinkReplaced,
    SubscriptionNotFound,
    WaitReason,
)
from forebay.errors.reasons import Reason
from tests.support.refusals import failure


def publish(client: Client, pages: int, *, records: int = 10) -> None:
    """Publish pages that stay apart."""
    with client.publisher("orders", linger_ms=0) as publisher:
        for _ in range(pages):
            publisher.send_many([b"x"] * records).result(10)


# -- purge


def test_a_purge_revokes_what_is_in_flight_and_late_acks_settle_nothing(client: Client) -> None:
    client.sinks.create("orders")
    publish(client, 3)
    with client.subscriber("orders") as subscriber:
        taken = subscriber.take(10)
        assert taken is not None
        taken.ack(0, 4, wait=True)

        [purged] = client.sinks.purge("orders", until_offset=20)
        late = taken.ack(5, 29, wait=True)
        after = [subscriber.take(10), subscriber.take(10)]
        for each in after:
            assert each is not None
            each.ack(wait=True)
        stats = client.sinks.stats("orders")

    assert (purged.records, purged.pages, purged.earliest_offset) == (20, 2, 20)
    assert {result.outcome for result in late} == {SettleOutcome.STALE}
    assert [(one.gap is not None, one.first_offset, one.last_offset) for one in after if one is not None] == [
        (True, 0, 19),
        (False, 20, 29),
    ]
    account = stats.subscriptions[0].partitions[0]
    assert (account.acked, account.dropped, account.pending) == (15, 15, 0)
    assert stats.partitions[0].dropped == {DropReason.PURGED: 20}
    assert stats.identity_ok


def test_a_purged_sink_is_empty_continues_and_stays_so_after_a_restart() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        publish(client, 2)
        client.sinks.purge("orders")
        publish(client, 1)
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        stats = client.sinks.stats("orders")
        records = client.pull("orders", wait_s=10)
        gaps = list(client.sinks.gaps("orders"))

    assert (stats.records, stats.pending(), stats.identity_ok) == (10, 10, True)
    assert [record.offset for record in records] == list(range(20, 30))
    assert [(gap.first_offset, gap.last_offset, gap.counts) for gap in gaps] == [(0, 19, {DropReason.PURGED: 20})]


def test_a_purge_makes_room_for_a_publisher_that_waits(client: Client) -> None:
    client.sinks.create("orders", max_disk_cache=20)
    publish(client, 2)
    with client.publisher("orders", linger_ms=0) as publisher:
        waiting = publisher.send(b"new")
        client.sinks.purge("orders", until_offset=10)

        assert waiting.result(20).first_offset == 20


def test_a_purge_that_makes_no_sense_is_refused(client: Client) -> None:
    client.sinks.create("orders", partitions=2)

    with pytest.raises(SinkNotFound):
        client.sinks.purge("nothing")
    with failure(Reason.INVALID_PARTITION):
        client.sinks.purge("orders", partition=2)
    with failure(Reason.INVALID_RANGE):
        client.sinks.purge("orders", until_offset=0)
    with failure(Reason.OFFSET_AHEAD):
        client.sinks.purge("orders", partition=0, until_offset=1)


def test_a_purge_up_to_ends_that_are_given_leaves_what_came_later_and_other_partitions(client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    client.publish("orders", [Record(b"old")] * 20, partition=0)
    client.publish("orders", [Record(b"other")], partition=1)
    ends = {0: client.sinks.stats("orders").partitions[0].next_offset}
    client.publish("orders", [Record(b"new")] * 10, partition=0)

    nothing = client.sinks.purge("orders", end_offsets={})
    purged = client.sinks.purge("orders", end_offsets=ends, until_time=datetime(2199, 1, 1, tzinfo=UTC))

    assert (list(nothing), [(one.partition, one.records) for one in purged]) == ([], [(0, 20)])
    assert [one.records for one in client.sinks.stats("orders").partitions] == [10, 1]
    with pytest.raises(SinkReplaced):
        client.sinks.purge("orders", end_offsets=ends, incarnation="another")
    with failure(Reason.OFFSET_AHEAD):
        client.sinks.purge("orders", end_offsets={1: 2})


def test_up_to_a_time_only_what_came_before_goes(client: Client) -> None:
    client.sinks.create("orders")
    publish(client, 2)

    nothing = client.sinks.purge("orders", until_time=datetime(2020, 1, 1, tzinfo=UTC))
    everything = client.sinks.purge("orders", until_time=datetime(2199, 1, 1, tzinfo=UTC))

    assert [one.records for one in (*nothing, *everything)] == [0, 20]


# -- drop


def test_a_record_that_the_target_rejects_is_dropped_by_its_subscription_alone(client: Client) -> None:
    client.sinks.create("orders")
    publish(client, 1)
    with client.subscriber("orders") as subscriber:
        taken = subscriber.take(10)
        assert taken is not None
        [result] = taken.drop("no such column", offset=3, wait=True)
        taken.ack(wait=True)
        stats = client.sinks.stats("orders")
    [gap] = client.sinks.gaps("orders")

    account = stats.subscriptions[0].partitions[0]
    assert result.outcome is SettleOutcome.OK
    assert (account.acked, account.dropped, account.pending, stats.identity_ok) == (9, 1, 0, True)
    assert stats.partitions[0].dropped == {DropReason.REJECTED_BY_TARGET: 1}
    assert (gap.first_offset, gap.last_offset, gap.subscription) == (3, 3, "default")
    assert (gap.reason, gap.detail) == (DropReason.REJECTED_BY_TARGET, "no such column")


# -- explain


def test_a_record_is_followed_from_before_its_birth_to_after_its_end(client: Client) -> None:
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=20)
    unborn = client.sinks.explain("orders", 0)
    publish(client, 2)
    stored = client.sinks.explain("orders", 5)
    with client.subscriber("orders", consumer_id="worker", credit_records=10) as subscriber:
        taken = subscriber.take(10)
        assert taken is not None
        flying, next_one = client.sinks.explain("orders", 5), client.sinks.explain("orders", 15)
        taken.nack_from(5, delay_s=60, reason="it said 503")
        taken.ack(0, 4, wait=True)
        backing_off, behind = client.sinks.explain("orders", 5), client.sinks.explain("orders", 0)
    publish(client, 2)
    dropped = client.sinks.explain("orders", 15)

    assert (unborn.place, unborn.wait) == (RecordPlace.NOT_ASSIGNED, WaitReason.RECORD)
    assert (stored.place, stored.state, stored.page) == (RecordPlace.RECENT, RecordState.PENDING, (0, 9))
    assert (stored.wait, stored.records_before) == (WaitReason.NO_CONSUMER, 5)
    assert flying.flight is not None
    assert (flying.state, flying.flight.consumer_id, flying.wait) == (
        RecordState.IN_FLIGHT,
        "worker",
        WaitReason.ANSWER,
    )
    assert next_one.wait is WaitReason.NO_CREDIT
    assert (backing_off.wait, backing_off.wait_detail, backing_off.attempts) == (
        WaitReason.BACKING_OFF,
        "it said 503",
        1,
    )
    assert behind.state is RecordState.ACKED
    assert dropped.gap is not None
    assert (dropped.place, dropped.gap.reason) == (RecordPlace.DROPPED, DropReason.OVERFLOW)


def test_a_question_about_nothing_is_refused(client: Client) -> None:
    client.sinks.create("orders")

    with pytest.raises(SinkNotFound):
        client.sinks.explain("nothing", 0)
    with pytest.raises(SubscriptionNotFound):
        client.sinks.explain("orders", 0, subscription="nobody")
    with failure(Reason.INVALID_PARTITION):
        client.sinks.explain("orders", 0, partition=1)
    with pytest.raises(SinkNotFound):
        list(client.sinks.gaps("nothing"))


# -- the command line


def test_the_commands_pause_resume_purge_and_tell(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 3)
    at = ["--endpoint", broker.endpoint]

    def told(*words: str) -> str:
        assert run([*words, *at]) == ExitCode.OK
        return capsys.readouterr().out

    told("sink", "pause", "orders", "--reason", "the target is being moved")
    paused = told("explain", "orders", "2")
    told("sink", "resume", "orders")
    told("sink", "update", "orders", "--set", "max_disk_cache=50")
    purged = json.loads(told("sink", "purge", "orders", "--all", "--yes", "-o", "json"))
    gaps = json.loads(told("gaps", "orders", "-o", "json"))
    table = told("gaps", "orders")
    explained = json.loads(told("explain", "orders", "2", "-o", "json"))

    assert "The sink is paused: the target is being moved." in paused
    assert "WAIT" not in paused
    assert client.sinks.get("orders").settings.max_disk_cache == 50
    assert [(one["records"], one["earliest_offset"]) for one in purged] == [(3, 3)]
    assert [(gap["first_offset"], gap["last_offset"], gap["counts"]) for gap in gaps] == [(0, 2, {"PURGED": 3})]
    assert "PURGED" in table
    assert (explained["place"], explained["gap"]["reason"]) == ("DROPPED", "PURGED")


@pytest.mark.parametrize("words", [[], ["--all", "--until-offset", "3"], ["--until-time", "yesterday"]])
def test_a_purge_has_to_say_how_far(broker: BrokerServer, words: list[str]) -> None:
    assert run(["sink", "purge", "orders", *words, "--endpoint", broker.endpoint]) == ExitCode.USAGE


def test_more_gaps_than_were_asked_for_are_announced(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("orders", partitions=2)
    for partition in (0, 1):
        client.publish("orders", [Record(b"x")], partition=partition)
    client.sinks.purge("orders")

    assert run(["gaps", "orders", "-n", "1", "-o", "json", "--endpoint", broker.endpoint]) == ExitCode.OK

    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 1
    assert "there are more than" in told.err
