"""Leases of failed records as sets, over the wire: settled, released, expired, and across a restart."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import (
    Client,
    Record,
    RecordState,
    ResendRanges,
    ResendSet,
    SettleOutcome,
    SinkNotFound,
    SubscriptionNotFound,
    WaitReason,
)
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.deliveries import ranged
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import DeliverCall, offsets
from tests.support.refusals import failure

OK, ALREADY, STALE = SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED, SettleOutcome.STALE


def failed(client: Client, *nacked: int, records: int = 10) -> None:
    """A consumer has pulled all records of `orders`, has nacked some and acked the others."""
    client.sinks.create("orders", ordering="RELAXED")
    client.publish("orders", [Record(b"%d" % number) for number in range(records)])
    pulled = client.pull("orders", max_records=records)
    client.nack("orders", [record for record in pulled if record.offset in nacked], delay_s=0.0)
    client.ack("orders", [record for record in pulled if record.offset not in nacked])


def lease(client: Client, holder: str = "job-1", duration_s: float = 60.0) -> ResendSet:
    return client.resends.lease("orders", holder=holder, duration_s=duration_s)


def settle(client: Client, found: ResendSet, holder: str = "job-1") -> list[SettleOutcome]:
    return [one.outcome for one in client.resends.settle("orders", holder=holder, ranges=found.partitions)]


def test_a_set_is_leased_explained_read_and_settled_while_a_consumer_owns_the_partition(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders", ordering="RELAXED", retry_backoff_min_s=60, retry_backoff_max_s=60)
    client.publish("orders", [Record(b"%d" % number) for number in range(6)])
    with DeliverCall(broker.endpoint, "orders", records=100) as call:
        [delivery] = call.delivered(6)
        epoch, revision = delivery.owner_epoch, delivery.revision
        nack = pb.NackRanges(owner_epoch=epoch, revision=revision, ranges=ranged(2, 3), retry=pb.NackRetry())
        call.put(pb.DeliverRequest(nack=nack))
        call.next("results")

        found = lease(client)
        told = client.sinks.explain("orders", 2)
        client.publish("orders", [Record(b"6")])
        live = [offset for one in call.delivered(1) for offset in offsets(one)]
        settled = settle(client, found)
        call.ack(epoch, revision, 0, 1)
        call.ack(epoch, revision + 1, 4, 6)

        stats = stats_when(client, "orders", lambda one: one.pending() == 0)

    assert found.partitions == (ResendRanges(0, 0, ((2, 3),), ((2, 1),), stats.incarnation),)
    assert (found.records, found.duration_s, found.incarnation) == (2, 60.0, stats.incarnation)
    assert (told.state, told.wait, told.wait_detail) == (RecordState.LEASED, WaitReason.LEASE, "job-1")
    assert told.lease is not None
    assert (told.lease.holder, told.wait_until) == ("job-1", told.lease.until)
    assert "in the resend set of job-1" in told.text
    assert live == [6]
    assert settled == [OK]
    assert stats.identity_ok
    assert stats.subscriptions[0].partitions[0].acked == 7


def test_a_set_is_the_same_for_each_call_of_its_holder_and_for_no_other(client: Client) -> None:
    failed(client, 1, 2, 7)

    first, again, other = lease(client), lease(client), lease(client, "job-2")

    failed_ranges = ResendRanges(0, 0, ((1, 2), (7, 7)), ((1, 1), (7, 1)), first.incarnation)
    assert first.partitions == again.partitions == (failed_ranges,)
    assert (other.records, other.duration_s) == (0, 0.0)
    assert settle(client, first, "job-2") == [STALE, STALE]
    assert settle(client, first) == [OK, OK]
    assert settle(client, first) == [ALREADY, ALREADY]


def test_a_set_is_no_larger_than_it_may_be(client: Client) -> None:
    failed(client, 1, 2, 7)

    assert client.resends.lease("orders", holder="job-1", records_max=1).partitions[0].ranges == ((1, 1),)
    assert client.resends.lease("orders", holder="job-2", bytes_max=1).records == 2  # one page always goes


def test_released_records_reach_the_consumer_and_have_not_failed(client: Client) -> None:
    failed(client, 1)
    lease(client)
    assert client.pull("orders") == []

    assert client.resends.release("orders", holder="job-1") == 1

    assert [(one.offset, one.attempt) for one in client.pull("orders", wait_s=10)] == [(1, 1)]


def test_a_lease_that_runs_out_has_failed_and_another_holder_takes_it(client: Client) -> None:
    failed(client, 1, 7)
    lost = lease(client, duration_s=1.0)
    stats_when(client, "orders", lambda one: one.subscriptions[0].partitions[0].leased_records == 0)

    found = lease(client, "job-2")

    assert found.partitions[0].attempts == ((1, 2), (7, 2))
    assert settle(client, lost) == [STALE, STALE]
    assert client.resends.lease_again("orders", holder="job-1", ranges=lost.partitions).records == 0
    client.resends.release("orders", holder="job-2")
    assert settle(client, lost) == [OK, OK]


def test_a_delay_that_a_nack_names_is_waited_for_unless_the_holder_says_otherwise(client: Client) -> None:
    client.sinks.create("orders", ordering="RELAXED")
    client.publish("orders", [Record(b"0")])
    client.nack("orders", client.pull("orders"), delay_s=3_600.0)

    assert lease(client).records == 0
    assert client.resends.lease("orders", holder="job-1", before_due=True).records == 1


def test_over_a_restart_a_set_is_leased_again_by_its_ranges_and_settled() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        failed(client, 1, 2, 7)
        found = lease(client)
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        again = client.resends.lease_again("orders", holder="job-1", ranges=found.partitions)
        delivered = client.pull("orders")

        assert again.partitions == found.partitions
        assert delivered == []
        assert settle(client, found) == [OK, OK]
        assert client.sinks.stats("orders").pending() == 0
        assert client.sinks.stats("orders").identity_ok


def test_a_set_leased_before_a_restart_does_not_settle_records_in_flight_to_a_consumer_after_it() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        failed(client, 1, 7)
        found = lease(client)
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        [taken] = client.pull("orders", max_records=1)

        assert settle(client, found) == [STALE, OK]
        client.ack("orders", [taken])
        assert client.sinks.stats("orders").pending() == 0


def test_a_lease_of_a_sink_in_strict_order_is_refused_with_the_remedy(client: Client) -> None:
    client.sinks.create("orders")

    with failure(Reason.ORDERING_STRICT, match="set its ordering to RELAXED"):
        lease(client)


def test_invalid_requests_to_lease_settle_or_release_are_refused_with_their_reason(client: Client) -> None:
    failed(client, 1)
    resends, twice = client.resends, [ResendRanges(0, 0, ((1, 1),))] * 2

    with failure(Reason.INVALID_LEASE, match="holder"):
        resends.lease("orders", holder="a b")
    with failure(Reason.INVALID_LEASE, match="duration"):
        resends.lease("orders", holder="a", duration_s=0.5)
    with failure(Reason.INVALID_LEASE, match="max_records"):
        resends.lease("orders", holder="a", records_max=1_000_001)
    with failure(Reason.INVALID_RANGE, match="each partition once"):
        resends.settle("orders", holder="a", ranges=twice)
    with failure(Reason.INVALID_RANGE):
        resends.settle("orders", holder="a", ranges=[])
    with failure(Reason.INVALID_RANGE):
        resends.lease_again("orders", holder="a", ranges=[])
    with pytest.raises(SubscriptionNotFound):
        resends.release("orders", "nobody", holder="a")
    with pytest.raises(SinkNotFound):
        resends.release("nothing", holder="a")
