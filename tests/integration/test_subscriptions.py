"""Several subscriptions on one sink, over gRPC: made, listed, moved and deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from forebay.client import (
    Client,
    OffsetTrimmed,
    Record,
    Subscription,
    SubscriptionNotFound,
    SubscriptionPartitionStats,
)
from forebay.client.errors import OutOfRange
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.refusals import failure


def fill(client: Client, records: int, *, first: int = 0, partition: int = 0) -> None:
    """Publish numbered records, each in a page of its own."""
    for number in range(first, first + records):
        client.publish("orders", [Record(b"%d" % number)], partition=partition)


def taken(client: Client, subscription: str, *, records: int = 100) -> list[bytes]:
    """Pull what there is and ack it."""
    found = client.pull("orders", subscription=subscription, max_records=records)
    if found:
        client.ack("orders", found, subscription=subscription)
    return [record.value for record in found]


def account(client: Client, subscription: str, partition: int = 0) -> SubscriptionPartitionStats:
    """The account of a subscription on a partition."""
    stats = client.sinks.stats("orders")
    assert stats.identity_ok
    return next(one for one in stats.subscriptions if one.name == subscription).partitions[partition]


@pytest.fixture
def orders(client: Client) -> Client:
    """A client of a broker with the sink ``orders``, whose pages are single records."""
    client.sinks.create("orders", buffer_page_size=1)
    return client


def test_every_subscription_gets_every_record(orders: Client) -> None:
    orders.subscriptions.create("orders", "audit")
    fill(orders, 3)

    assert taken(orders, "default") == [b"0", b"1", b"2"]
    assert taken(orders, "audit") == [b"0", b"1", b"2"]


def test_data_is_kept_until_the_last_subscription_has_settled_it(orders: Client) -> None:
    orders.subscriptions.create("orders", "audit")
    fill(orders, 3)
    taken(orders, "default")

    kept = orders.sinks.stats("orders").partitions[0].records
    taken(orders, "audit")
    gone = stats_when(orders, "orders", lambda stats: stats.records == 0)

    assert kept == 3
    assert gone.identity_ok


@pytest.mark.parametrize(
    ("start", "expected"),
    [("earliest", [0, 1, 2, 3]), ("latest", []), (2, [2, 3]), ({0: 3}, [3]), ({1: 0}, [0, 1, 2, 3])],
)
def test_a_subscription_begins_at_its_requested_position(
    client: Client, start: str | int | dict[int, int], expected: list[int]
) -> None:
    client.sinks.create("orders", partitions=2, buffer_page_size=1)
    fill(client, 4)
    fill(client, 2, partition=1)

    made = client.subscriptions.create("orders", "late", start=start)  # type: ignore[arg-type]
    found = client.pull("orders", subscription="late")

    assert made.start == start
    assert [record.offset for record in found if record.partition == 0] == expected


def test_a_subscription_begins_with_what_came_at_a_time_or_later(orders: Client) -> None:
    fill(orders, 3)
    times = [record.accepted_at for record in orders.pull("orders", max_records=3)]

    orders.subscriptions.create("orders", "late", start=times[1])
    orders.subscriptions.create("orders", "early", start=datetime(2001, 1, 1, tzinfo=UTC))
    orders.subscriptions.create("orders", "to-come", start=times[2] + timedelta(days=1))

    assert taken(orders, "late") == [b"%d" % n for n in range(3) if times[n] >= times[1]]
    assert taken(orders, "early") == [b"0", b"1", b"2"]
    assert taken(orders, "to-come") == []


def test_subscriptions_are_listed_by_name_with_their_start(orders: Client) -> None:
    fill(orders, 3)
    made = orders.subscriptions.create("orders", "b", start=2)
    orders.subscriptions.create("orders", "a", start={0: 1})

    found = orders.subscriptions.list("orders")

    assert [(one.name, one.start) for one in found] == [("a", {0: 1}), ("b", 2), ("default", "earliest")]
    assert found[1] == made
    sink = orders.sinks.get("orders")
    assert found[2] == Subscription("orders", "default", sink.created_at, "earliest", sink.incarnation)


def test_making_a_subscription_again_needs_the_same_start_and_a_word(orders: Client) -> None:
    fill(orders, 3)
    made = orders.subscriptions.create("orders", "audit", start=1)
    taken(orders, "audit")

    again = orders.subscriptions.create("orders", "audit", start=1, exist_ok=True)

    assert again == made
    assert account(orders, "audit").acked == 2
    with failure(Reason.SUBSCRIPTION_EXISTS):
        orders.subscriptions.create("orders", "audit", start=1)
    with failure(Reason.SUBSCRIPTION_EXISTS):
        orders.subscriptions.create("orders", "audit", start=2, exist_ok=True)
    with failure(Reason.SUBSCRIPTION_EXISTS):
        orders.subscriptions.create("orders", "default", start="latest", exist_ok=True)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ä", "a/b"])
def test_a_name_that_is_no_id_is_refused(orders: Client, name: str) -> None:
    with failure(Reason.INVALID_SUBSCRIPTION_NAME):
        orders.subscriptions.create("orders", name)


def test_a_sink_has_at_most_a_hundred_subscriptions(orders: Client) -> None:
    for number in range(99):
        orders.subscriptions.create("orders", f"s{number}")

    with failure(Reason.TOO_MANY_SUBSCRIPTIONS) as refused:
        orders.subscriptions.create("orders", "one-more")
    orders.subscriptions.delete("orders", "s0")
    orders.subscriptions.create("orders", "one-more")

    assert refused.value.facts["bound"] == "100"
    assert len(orders.subscriptions.list("orders")) == 100


def test_the_default_subscription_cannot_be_deleted(orders: Client) -> None:
    with failure(Reason.DEFAULT_SUBSCRIPTION):
        orders.subscriptions.delete("orders", "default")


def test_a_deleted_subscription_holds_nothing_back_and_ends_its_consumers(orders: Client) -> None:
    orders.subscriptions.create("orders", "audit")
    fill(orders, 3)
    taken(orders, "default")
    consumer = iter(orders.subscriber("orders", subscription="audit"))
    next(consumer)

    orders.subscriptions.delete("orders", "audit")

    stats = stats_when(orders, "orders", lambda stats: stats.records == 0)
    assert [one.name for one in stats.subscriptions] == ["default"]
    with pytest.raises(SubscriptionNotFound):
        next(consumer)
    with pytest.raises(SubscriptionNotFound):
        orders.subscriptions.delete("orders", "audit")
    with pytest.raises(SubscriptionNotFound):
        orders.pull("orders", subscription="audit")


def test_a_subscription_made_again_after_its_deletion_is_a_new_one(orders: Client) -> None:
    fill(orders, 3)
    orders.subscriptions.create("orders", "audit")
    taken(orders, "audit", records=2)
    orders.subscriptions.delete("orders", "audit")

    orders.subscriptions.create("orders", "audit")

    again = account(orders, "audit")
    assert (again.watermark, again.acked, again.lifetime.acked) == (0, 0, 0)


def test_a_seek_closes_the_account_into_the_lifetime_totals(orders: Client) -> None:
    fill(orders, 10)
    taken(orders, "default", records=4)
    orders.subscriptions.create("orders", "keeper")

    places = orders.subscriptions.seek("orders", to=7)
    moved = account(orders, "default")
    taken(orders, "default")
    after = account(orders, "default")

    assert [(one.partition, one.start_offset, one.trimmed) for one in places] == [(0, 7, None)]
    assert (moved.start_offset, moved.acked, moved.skipped, moved.pending) == (7, 0, 0, 3)
    assert (moved.lifetime.acked, moved.lifetime.skipped, moved.lifetime.seeks) == (4, 6, 1)
    assert (after.acked, after.lifetime.acked) == (3, 7)


def test_h19_a_position_does_not_pass_what_is_not_settled(orders: Client) -> None:
    """H19: record 10 finishes before 7: a position may not pass 6."""
    fill(orders, 11)
    found = orders.pull("orders")
    orders.ack("orders", [*found[:7], found[10]])

    before = account(orders, "default")
    orders.ack("orders", found[7:10])

    assert (before.watermark, before.acked, before.pending) == (7, 8, 3)
    assert account(orders, "default").watermark == 11


def test_a_seek_names_one_partition_some_or_all(client: Client) -> None:
    client.sinks.create("orders", partitions=3, buffer_page_size=1)
    for partition in range(3):
        fill(client, 4, partition=partition)

    one = client.subscriptions.seek("orders", to=2, partition=1)
    some = client.subscriptions.seek("orders", to={0: 1, 2: 3})
    places = [account(client, "default", partition).start_offset for partition in range(3)]
    everywhere = client.subscriptions.seek("orders", to="latest")

    assert [place.partition for place in one] == [1]
    assert [place.partition for place in some] == [0, 2]
    assert places == [1, 2, 3]
    assert [place.start_offset for place in everywhere] == [4, 4, 4]


def test_a_seek_changes_all_partitions_or_none(client: Client) -> None:
    client.sinks.create("orders", partitions=2, buffer_page_size=1)
    fill(client, 5)

    with pytest.raises(OutOfRange) as refused:
        client.subscriptions.seek("orders", to=3)

    assert (refused.value.requested, refused.value.next_offset) == (3, 0)
    assert account(client, "default").lifetime.seeks == 0


def test_a_seek_that_names_no_place_is_refused(orders: Client) -> None:
    with failure(Reason.INVALID_PARTITION):
        orders.subscriptions.seek("orders", to=0, partition=1)
    with failure(Reason.INVALID_PARTITION):
        orders.subscriptions.seek("orders", to={4: 0})
    with failure(Reason.INVALID_POSITION):
        orders.subscriptions.seek("orders", to={0: 0}, partition=0)
    with failure(Reason.INVALID_POSITION):
        orders.subscriptions.seek("orders", to=-1)
    with pytest.raises(SubscriptionNotFound):
        orders.subscriptions.seek("orders", "nobody", to=0)


def test_h21_a_start_below_the_earliest_is_an_error_or_the_earliest_with_a_word_on_what_is_gone(
    orders: Client,
) -> None:
    """H21: earliest plus a gap, or an error, by option; a start beyond the end is a typed error, never silence."""
    fill(orders, 6)
    taken(orders, "default", records=4)
    stats_when(orders, "orders", lambda stats: stats.records == 2)

    with pytest.raises(OffsetTrimmed) as trimmed:
        orders.subscriptions.create("orders", "late", start=1)
    with pytest.raises(OffsetTrimmed):
        orders.subscriptions.seek("orders", to=1)
    with failure(Reason.OFFSET_AHEAD):
        orders.subscriptions.create("orders", "late", start=7)
    with failure(Reason.OFFSET_AHEAD):
        orders.subscriptions.seek("orders", to=7)
    untouched = account(orders, "default")
    orders.subscriptions.create("orders", "late", start=1, or_earliest=True)
    [place] = orders.subscriptions.seek("orders", to=1, or_earliest=True)

    assert (trimmed.value.requested, trimmed.value.earliest) == (1, 4)
    assert (untouched.lifetime.seeks, untouched.acked) == (0, 4)
    assert (place.start_offset, place.trimmed) == (4, (1, 3))
    assert taken(orders, "late") == [b"4", b"5"]
    assert taken(orders, "default") == [b"4", b"5"]


def test_h21_a_start_in_a_gap_begins_with_the_gap(client: Client) -> None:
    """H21: dropped records are reported as a gap, and count as dropped in the account that begins there."""
    client.sinks.create("orders", buffer_page_size=1, max_disk_cache=3, overflow="DROP_OLDEST")
    fill(client, 6)

    client.subscriptions.create("orders", "late", start=1)
    met = []
    with client.subscriber("orders", subscription="late") as consumer:
        for delivery in consumer:
            met += [(delivery.gap.first_offset, delivery.gap.last_offset)] if delivery.gap else []
            if delivery.gap is None:
                delivery.ack(wait=True)
            if delivery.last_offset == 5:
                break

    found = account(client, "late")
    assert met == [(1, 1), (2, 2)]
    assert (found.start_offset, found.dropped, found.acked, found.pending) == (1, 2, 3, 0)


def test_a_paused_sink_pauses_a_new_subscription_too(orders: Client) -> None:
    fill(orders, 1)
    orders.sinks.pause("orders", "maintenance")

    orders.subscriptions.create("orders", "audit")
    held = taken(orders, "audit")
    orders.sinks.resume("orders")

    assert held == []
    assert taken(orders, "audit") == [b"0"]


def test_partitions_grow_while_consumers_and_publishers_are_connected(orders: Client) -> None:
    orders.subscriptions.create("orders", "audit")
    fill(orders, 1)
    consumer = orders.subscriber("orders")
    deliveries = iter(consumer)
    next(deliveries).ack(wait=True)

    grown = orders.sinks.update("orders", partitions=3)
    fill(orders, 1, first=1, partition=2)
    delivery = next(deliveries)

    assert grown.settings.partitions == 3
    assert (delivery.partition, delivery.values()) == (2, [b"1"])
    assert sorted(taken(orders, "audit")) == [b"0", b"1"]
    with orders.publisher("orders") as publisher:
        assert publisher.partitions == 3
    assert len(orders.sinks.stats("orders").partitions) == 3


def test_partitions_never_shrink(client: Client) -> None:
    client.sinks.create("orders", partitions=3)

    with failure(Reason.INVALID_SETTING) as refused:
        client.sinks.update("orders", partitions=2)

    assert refused.value.facts["field"] == "partitions"
    assert client.sinks.get("orders").settings.partitions == 3


def test_a_reader_with_a_position_of_its_own_settles_what_it_has_read(orders: Client) -> None:
    orders.subscriptions.create("orders", "audit")
    fill(orders, 4)

    [settled] = orders.subscriptions.settle("orders", "audit", offsets={0: 3})

    assert (settled.partition, settled.acked, settled.watermark) == (0, 3, 3)
    assert (account(orders, "audit").acked, account(orders, "audit").pending) == (3, 1)
    assert taken(orders, "audit") == [b"3"]


def test_a_reader_does_not_settle_past_a_consumer(orders: Client) -> None:
    fill(orders, 4)
    orders.pull("orders", max_records=1)

    with failure(Reason.SUBSCRIPTION_IN_USE) as error:
        orders.subscriptions.settle("orders", offsets={0: 3})

    assert error.value.facts["consumer_id"] == "pull"


def test_the_offset_of_a_time_is_that_of_the_first_record_accepted_then_or_later(orders: Client) -> None:
    fill(orders, 3)
    times = [record.accepted_at for record in orders.pull("orders", max_records=3)]

    assert orders.offset_at("orders", times[0] - timedelta(days=1), partition=0) == 0
    assert orders.offset_at("orders", times[2], partition=0) == times.index(times[2])
    assert orders.offset_at("orders", times[2] + timedelta(days=1), partition=0) == 3
