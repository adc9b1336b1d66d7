"""A request is done, its answer is lost, and the client sends it again: it does nothing that it had not done before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, DropReason, Record, SinkReplaced
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import values_of
from tests.support.proxies.answers import AnswerLoser
from tests.support.refusals import failure


def dead_lettered(client: Client, *values: bytes) -> None:
    """Publish records that their target rejects."""
    client.publish("orders", [Record(value) for value in values])
    with client.subscriber("orders") as subscriber:
        left = len(values)
        while left:
            delivery = subscriber.take(10)
            assert delivery is not None
            for record in delivery:
                delivery.dead_letter("never", offset=record.offset, wait=True)
                left -= 1


def left(client: Client) -> list[bytes]:
    """The values of the records that are still to be delivered."""
    return [record.value for record in client.pull("orders")]


def letters(client: Client) -> list[bytes]:
    """The values of the dead letters that are still to be dealt with."""
    return [one.record.value for one in client.dead_letters.list("orders")]


def test_a_purge_that_comes_twice_leaves_what_was_acknowledged_in_between(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    for partition in (0, 1):
        client.publish("orders", [Record(b"old")] * 5, partition=partition)

    def more() -> None:
        client.publish("orders", [Record(b"new")] * 7, partition=1)

    with AnswerLoser(broker.endpoint, "PurgeSink", more) as relay, Client(relay.endpoint) as far:
        purged = far.sinks.purge("orders")

    assert relay.tries == 2
    assert [one.records for one in purged] == [0, 0]
    assert left(client) == [b"new"] * 7
    dropped = [one.dropped for one in client.sinks.stats("orders").partitions]
    assert dropped == [{DropReason.PURGED: 5}, {DropReason.PURGED: 5}]


def test_a_purge_that_comes_twice_with_a_restart_in_between_leaves_what_was_acknowledged_after_it() -> None:
    store = MemoryStore()
    first = BrokerServer.in_memory(store)
    first.start()
    second: list[BrokerServer] = []
    with Client(first.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"old")] * 5)

    def restart() -> None:
        first.stop()
        second.append(BrokerServer.in_memory(store.reopen()))
        second[0].start()
        relay.target = second[0].endpoint
        with Client(relay.target) as client:
            client.publish("orders", [Record(b"new")] * 7)

    with AnswerLoser(first.endpoint, "PurgeSink", restart) as relay, Client(relay.endpoint) as far:
        far.sinks.purge("orders")

    with Client(second[0].endpoint) as client:
        assert left(client) == [b"new"] * 7
    second[0].stop()


def test_a_purge_up_to_a_time_that_is_still_to_come_leaves_what_was_acknowledged_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    receipt = client.publish("orders", [Record(b"old")])[0]
    assert receipt.first_offset == 0
    [shown] = client.peek("orders")
    later = shown.accepted_at.replace(year=shown.accepted_at.year + 1)

    def more() -> None:
        client.publish("orders", [Record(b"new")])

    with AnswerLoser(broker.endpoint, "PurgeSink", more) as relay, Client(relay.endpoint) as far:
        far.sinks.purge("orders", until_time=later)

    assert relay.tries == 2
    assert left(client) == [b"new"]


def test_a_purge_of_dead_letters_that_comes_twice_leaves_what_was_rejected_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    dead_lettered(client, b"old", b"older")

    def more() -> None:
        dead_lettered(client, b"new")

    with AnswerLoser(broker.endpoint, "PurgeDeadLetters", more) as relay, Client(relay.endpoint) as far:
        far.dead_letters.purge("orders")

    assert relay.tries == 2
    assert letters(client) == [b"new"]


def test_a_redrive_that_comes_twice_leaves_what_was_rejected_again_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    dead_lettered(client, b"one", b"two")

    def reject_again() -> None:
        with client.subscriber("orders") as subscriber:
            delivery = subscriber.take(10)
            assert delivery is not None
            delivery.dead_letter("never", offset=delivery.first_offset, wait=True)

    with AnswerLoser(broker.endpoint, "RedriveDeadLetters", reject_again) as relay, Client(relay.endpoint) as far:
        far.dead_letters.redrive("orders")

    assert relay.tries == 2
    assert letters(client) == [b"one"]
    assert client.sinks.stats("orders").pending() == 1


def test_a_deletion_that_comes_twice_leaves_the_sink_that_was_made_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")

    def made_anew() -> None:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"new")])

    with AnswerLoser(broker.endpoint, "DeleteSink", made_anew) as relay, Client(relay.endpoint) as far:
        far.sinks.delete("orders", force=True)

    assert relay.tries == 2
    assert values_of(client, "orders") == [b"new"]


def test_a_deletion_that_comes_twice_leaves_the_dead_letters_that_came_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    dead_lettered(client, b"old")

    def made_anew() -> None:
        client.sinks.create("orders")
        dead_lettered(client, b"new")
        client.sinks.delete("orders", force=True)

    with AnswerLoser(broker.endpoint, "DeleteSink", made_anew) as relay, Client(relay.endpoint) as far:
        far.sinks.delete("orders", force=True, dead_letters=True)

    assert [sink.name for sink in client.sinks.list()] == ["orders.dlq"]
    assert client.sinks.stats("orders.dlq").records == 1


def test_a_deletion_that_comes_twice_leaves_the_subscription_that_was_made_in_between(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    client.subscriptions.create("orders", "audit")

    def made_anew() -> None:
        client.subscriptions.create("orders", "audit")

    with AnswerLoser(broker.endpoint, "DeleteSubscription", made_anew) as relay, Client(relay.endpoint) as far:
        far.subscriptions.delete("orders", "audit")

    assert relay.tries == 2
    assert [one.name for one in client.subscriptions.list("orders")] == ["audit", "default"]


def test_a_sink_that_was_made_by_the_call_whose_answer_was_lost_is_its_own(
    broker: BrokerServer, client: Client
) -> None:
    with AnswerLoser(broker.endpoint, "CreateSink", lambda: None) as relay, Client(relay.endpoint) as far:
        made = far.sinks.create("orders", partitions=2)

    assert relay.tries == 2
    assert made == client.sinks.get("orders")


def test_a_sink_that_another_process_has_made_since_is_not_taken_for_the_own_one(
    broker: BrokerServer, client: Client
) -> None:
    def made_anew() -> None:
        client.sinks.delete("orders")
        client.sinks.create("orders")

    with (
        AnswerLoser(broker.endpoint, "CreateSink", made_anew) as relay,
        Client(relay.endpoint) as far,
        failure(Reason.SINK_EXISTS),
    ):
        far.sinks.create("orders")

    assert relay.tries == 2


def test_a_subscription_is_known_by_the_call_that_made_it_when_the_answer_was_lost(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    with AnswerLoser(broker.endpoint, "CreateSubscription", lambda: None) as relay, Client(relay.endpoint) as far:
        made = far.subscriptions.create("orders", "audit")

    def made_anew() -> None:
        client.subscriptions.delete("orders", "other")
        client.subscriptions.create("orders", "other")

    with (
        AnswerLoser(broker.endpoint, "CreateSubscription", made_anew) as relay,
        Client(relay.endpoint) as far,
        failure(Reason.SUBSCRIPTION_EXISTS),
    ):
        far.subscriptions.create("orders", "other")

    assert made in client.subscriptions.list("orders")


def test_a_sink_whose_maker_lost_the_answer_to_a_restart_is_its_own() -> None:
    store = MemoryStore()
    first = BrokerServer.in_memory(store)
    first.start()
    second: list[BrokerServer] = []

    def restart() -> None:
        first.stop()
        second.append(BrokerServer.in_memory(store.reopen()))
        second[0].start()
        relay.target = second[0].endpoint

    with AnswerLoser(first.endpoint, "CreateSink", restart) as relay, Client(relay.endpoint) as far:
        made = far.sinks.create("orders")

    with Client(second[0].endpoint) as client:
        assert client.sinks.get("orders") == made
    second[0].stop()


CHANGES: dict[str, Callable[[Client], object]] = {
    "PurgeSink": lambda client: client.sinks.purge("orders"),
    "UpdateSink": lambda client: client.sinks.update("orders", partitions=4),
    "PauseSink": lambda client: client.sinks.pause("orders"),
    "ResumeSink": lambda client: client.sinks.resume("orders"),
    "CreateSubscription": lambda client: client.subscriptions.create("orders", "audit"),
}


@pytest.mark.parametrize("rpc", sorted(CHANGES))
def test_a_change_that_comes_twice_is_not_made_to_the_sink_that_was_made_in_between(
    broker: BrokerServer, client: Client, rpc: str
) -> None:
    former = client.sinks.create("orders")
    client.publish("orders", [Record(b"old")])

    def made_anew() -> None:
        client.sinks.delete("orders", force=True)
        client.sinks.create("orders")
        client.publish("orders", [Record(b"new")])

    with (
        AnswerLoser(broker.endpoint, rpc, made_anew) as relay,
        Client(relay.endpoint) as far,
        pytest.raises(SinkReplaced) as refused,
    ):
        CHANGES[rpc](far)

    assert (refused.value.named, refused.value.current) == (former.incarnation, client.sinks.get("orders").incarnation)
    assert values_of(client, "orders") == [b"new"]
    assert len(client.subscriptions.list("orders")) == 1
    assert client.sinks.get("orders").settings.partitions == 1
