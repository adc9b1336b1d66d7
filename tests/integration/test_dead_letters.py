"""Dead letters over the wire: rejection by a consumer, redrive, purge, and how a sink protects itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli.main import run
from forebay.client import (
    Client,
    DeadLetter,
    DeadLetterReason,
    Record,
    SettleOutcome,
    SinkFull,
    SinkNotFound,
    SinkReplaced,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import dead_letter_service_pb2 as pb
from forebay.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from tests.support.calls.eventually import stats_when
from tests.support.refusals import failure

WHEN = datetime(2024, 5, 1, 12, tzinfo=UTC)


def published(count: int) -> list[Record]:
    """Records with everything that a record can have."""
    return [
        Record(b"value %d" % n, key=b"key" if n % 2 else None, headers=(("a", b"%d" % n),), event_time=WHEN)
        for n in range(count)
    ]


def reject(client: Client, *offsets: int, reason: str = "no such customer", **settings: object) -> list[Record]:
    """Publish ten records into `orders`; reject some, ack the others."""
    client.sinks.create("orders", exist_ok=True, **settings)  # type: ignore[arg-type]
    records = published(10)
    client.publish("orders", records, partition=0)
    with client.subscriber("orders") as subscriber:
        left = 10
        while left:
            delivery = next(subscriber)
            left -= len(delivery)
            for record in delivery:
                if record.offset in offsets:
                    [result] = delivery.dead_letter(f"{reason} {record.offset}", offset=record.offset, wait=True)
                    assert result.outcome is SettleOutcome.OK
                else:
                    delivery.ack(record.offset)
    return records


def offsets_of(letters: list[DeadLetter]) -> list[int]:
    return [letter.origin_offset for letter in letters]


def test_rejected_records_are_there_whole_and_the_rest_is_delivered(client: Client) -> None:
    records = reject(client, 2, 5)

    letters = list(client.dead_letters.list("orders"))

    assert [letter.record for letter in letters] == [records[2], records[5]]
    assert [(letter.reason, letter.error, letter.attempts) for letter in letters] == [
        (DeadLetterReason.REJECTED, f"no such customer {offset}", 1) for offset in (2, 5)
    ]
    assert offsets_of(letters) == [2, 5]
    assert {letter.subscription for letter in letters} == {"default"}
    assert abs(letters[0].time - datetime.now(UTC)) < timedelta(minutes=5)
    stats = client.sinks.stats("orders")
    [part] = stats.subscriptions[0].partitions
    assert (part.acked, part.dead_lettered, part.pending, stats.identity_ok) == (8, 2, 0, True)
    assert client.sinks.get("orders.dlq").settings.partitions == 1


def test_a_record_that_fails_too_often_becomes_a_dead_letter(client: Client) -> None:
    client.sinks.create("orders", max_attempts=1)
    client.publish("orders", [Record(b"poison"), Record(b"good")], partition=0)
    with client.subscriber("orders") as subscriber:
        next(subscriber).nack(delay_s=0.0, reason="HTTP 500")
        delivery = next(subscriber)
        assert delivery.values() == [b"good"]
        delivery.ack(wait=True)
    stats_when(client, "orders", lambda stats: stats.pending() == 0)

    [letter] = client.dead_letters.list("orders")

    assert (letter.record.value, letter.reason, letter.error) == (b"poison", "MAX_ATTEMPTS", "HTTP 500")


def test_redriven_records_are_delivered_again_as_they_were(client: Client) -> None:
    records = reject(client, 1, 2, 3)

    assert client.dead_letters.redrive("orders", first_offset=2) == 2

    with client.subscriber("orders") as subscriber:
        delivery = next(subscriber)
        again = list(delivery)
        delivery.ack(wait=True)
    assert [(r.value, r.key, r.headers, r.event_time) for r in again] == [
        (r.value, r.key, r.headers, r.event_time) for r in records[2:4]
    ]
    assert [record.offset for record in again] == [10, 11]
    assert offsets_of(list(client.dead_letters.list("orders.dlq"))) == [1]


def test_filters_choose_by_reason_text_place_and_time(client: Client) -> None:
    reject(client, 1, 2, 3)
    listed = client.dead_letters.list

    assert offsets_of(list(listed("orders", reason="rejected"))) == [1, 2, 3]
    assert offsets_of(list(listed("orders", reason=DeadLetterReason.MAX_ATTEMPTS))) == []
    assert offsets_of(list(listed("orders", error_contains="customer 2"))) == [2]
    assert offsets_of(list(listed("orders", error="no such customer 2"))) == [2]
    assert offsets_of(list(listed("orders", error="customer 2"))) == []
    assert offsets_of(list(listed("orders", last_offset=2))) == [1, 2]
    assert offsets_of(list(listed("orders", partition=0, subscription="default"))) == [1, 2, 3]
    assert offsets_of(list(listed("orders", until_time=WHEN))) == []
    assert offsets_of(list(listed("orders", from_time=WHEN))) == [1, 2, 3]


def test_purged_dead_letters_are_gone(client: Client) -> None:
    reject(client, 1, 2, 3)

    assert client.dead_letters.purge("orders", error_contains="customer 2") == 1

    assert offsets_of(list(client.dead_letters.list("orders"))) == [1, 3]
    assert client.dead_letters.purge("orders") == 2
    stats_when(client, "orders.dlq", lambda stats: stats.records == 0)


def test_a_purge_of_dead_letters_up_to_ends_that_are_given_leaves_later_ones(client: Client) -> None:
    reject(client, 1)
    stats = client.sinks.stats("orders.dlq")
    ends = {one.partition: one.next_offset for one in stats.partitions}
    assert sum(ends.values()) == 1
    reject(client, 11)

    assert client.dead_letters.purge("orders", end_offsets={}) == 0
    with pytest.raises(SinkReplaced):
        client.dead_letters.purge("orders", end_offsets=ends, incarnation="another")
    assert client.dead_letters.purge("orders", end_offsets=ends, incarnation=stats.incarnation) == 1

    assert offsets_of(list(client.dead_letters.list("orders"))) == [11]


def test_a_dead_letter_sink_is_read_like_any_other_but_written_by_the_broker_alone(client: Client) -> None:
    reject(client, 4)

    with client.subscriber("orders.dlq") as subscriber:
        delivery = next(subscriber)
        [record] = delivery
        delivery.ack(wait=True)

    assert dict(record.headers)["forebay.dead.error"] == b"no such customer 4"
    assert list(client.dead_letters.list("orders")) == []
    with failure(Reason.INVALID_SINK_NAME):
        client.publish("orders.dlq", [Record(b"forged")])
    with failure(Reason.INVALID_SINK_NAME):
        client.sinks.create("other.dlq")


def test_a_target_that_rejects_everything_stops_the_sink(client: Client) -> None:
    client.sinks.create("orders", dlq_consecutive_max=20)
    client.publish("orders", [Record(b"%d" % n) for n in range(100)], partition=0)

    with client.subscriber("orders") as subscriber:
        delivery = next(subscriber)
        results = delivery.dead_letter("HTTP 404", wait=True)

    assert [(r.first_offset, r.last_offset, r.outcome) for r in results] == [
        (0, 19, SettleOutcome.OK),
        (20, 99, SettleOutcome.STALE),
    ]
    [part] = client.sinks.stats("orders").subscriptions[0].partitions
    assert (part.state, part.dead_lettered, part.pending) == ("PAUSED", 20, 80)
    assert part.reason == "DLQ_BREAKER: 20 records in a row went to the dead-letter sink"


def test_a_full_dead_letter_sink_stops_the_sink_and_loses_nothing(client: Client) -> None:
    reject(client, 0)
    client.sinks.update("orders.dlq", max_total_bytes=1024)
    client.publish("orders", [Record(b"x" * 1000)], partition=0)

    with client.subscriber("orders") as subscriber:
        [result] = next(subscriber).dead_letter("HTTP 422", wait=True)

    assert result.outcome is SettleOutcome.STALE
    [part] = client.sinks.stats("orders").subscriptions[0].partitions
    assert (part.state, part.pending, part.reason[:9]) == ("PAUSED", 1, "DLQ_FULL:")


def test_an_origin_without_room_says_so_and_keeps_the_dead_letters(client: Client) -> None:
    reject(client, 0, 1)
    client.publish("orders", [Record(b"x" * 990)], partition=0)
    client.sinks.update("orders", max_total_bytes=1024)

    with pytest.raises(SinkFull):
        client.dead_letters.redrive("orders")

    assert offsets_of(list(client.dead_letters.list("orders"))) == [0, 1]


def test_deleting_a_sink_leaves_its_dead_letters_unless_asked(client: Client) -> None:
    reject(client, 0)
    client.sinks.delete("orders")
    assert [sink.name for sink in client.sinks.list()] == ["orders.dlq"]
    assert offsets_of(list(client.dead_letters.list("orders"))) == [0]
    with pytest.raises(SinkNotFound):
        client.dead_letters.redrive("orders")

    client.sinks.create("orders")
    client.sinks.delete("orders", force=True, dead_letters=True)

    assert client.sinks.list() == []


def test_wrong_filters_tokens_and_names_are_refused(client: Client, broker: BrokerServer) -> None:
    reject(client, 0)
    with failure(Reason.INVALID_FILTER):
        client.dead_letters.purge("orders", first_offset=3, last_offset=2)
    with failure(Reason.INVALID_FILTER):
        client.dead_letters.purge("orders", reason="because")
    with failure(Reason.INVALID_FILTER):
        client.dead_letters.purge("orders", ofset=3)  # type: ignore[call-arg]
    with pytest.raises(SinkNotFound):
        list(client.dead_letters.list("nothing"))
    with grpc.insecure_channel(broker.endpoint) as channel, pytest.raises(grpc.RpcError) as refused:
        DeadLetterServiceStub(channel).ListDeadLetters(pb.ListDeadLettersRequest(sink="orders", page_token="x"))
    assert from_call(refused.value).reason == "INVALID_PAGE_TOKEN"


def test_more_dead_letters_than_were_asked_for_are_announced(
    client: Client, broker: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    reject(client, 1, 2, 3)

    assert run(["dlq", "list", "orders", "-n", "2", "-e", broker.endpoint]) == 0
    some = capsys.readouterr()
    assert run(["dlq", "list", "orders", "-n", "2", "-e", broker.endpoint, "-o", "json"]) == 0
    offsets = [letter["origin_offset"] for letter in json.loads(capsys.readouterr().out)]
    assert run(["dlq", "list", "orders", "-n", "3", "-e", broker.endpoint]) == 0
    all_of_them = capsys.readouterr()

    assert "first 2 dead letters of orders" in some.out
    assert some.err == "forebay: there are more than 2 dead letters; raise --count to show them\n"
    assert offsets == [1, 2]
    assert ("first" in all_of_them.out, "3 dead letters of orders" in all_of_them.out) == (False, True)
    assert all_of_them.err == ""


def test_the_command_line_lists_redrives_and_purges(
    client: Client, broker: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    reject(client, 1, 2, 3)

    def said(*arguments: str) -> str:
        assert run([*arguments, "-e", broker.endpoint]) == 0
        return capsys.readouterr().out

    assert "no such customer 2" in said("dlq", "list", "orders")
    listed = json.loads(said("dlq", "list", "orders", "--first", "3", "-o", "json"))
    assert [letter["origin_offset"] for letter in listed] == [3]
    assert said("dlq", "redrive", "orders", "--error", "customer 1") == "redrove 1 record of orders\n"
    assert json.loads(said("dlq", "purge", "orders", "--last", "2", "--yes", "-o", "json")) == {"purged": 1}
    assert run(["dlq", "purge", "orders", "-e", broker.endpoint]) == 2
    assert json.loads(said("dlq", "purge", "orders", "--all", "--yes", "-o", "json")) == {"purged": 1}
