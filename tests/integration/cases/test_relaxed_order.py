"""RELAXED order, over the wire and through the client."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Ordering
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import DeliverCall, offsets, outcomes
from tests.support.refusals import failure


def create(client: Client, *, ordering: str = "RELAXED", resend_priority: int = 0) -> None:
    """A sink that does not wait long before it tries again."""
    client.sinks.create(
        "orders",
        ordering=ordering,
        resend_priority=resend_priority,
        retry_backoff_min_s=0.001,
        retry_backoff_max_s=0.001,
    )


def fill(client: Client, records: int, *, page_records: int = 1, first: int = 0) -> None:
    """Publish records that hold their offsets."""
    with client.publisher("orders", linger_ms=0, page_records=page_records) as publisher:
        for start in range(first, first + records, page_records):
            publisher.send_many([b"%d" % number for number in range(start, start + page_records)]).result(10)


@pytest.mark.parametrize("page_records", [1, 11])
def test_failed_records_go_to_the_retry_queue_and_are_redelivered_in_order_and_flagged(
    client: Client, page_records: int
) -> None:
    """1, 3, 5 fail: live 2, 4, 6, 8, 10; resent 1, 3, 5 in order. Resent ones are flagged, live ones not."""
    create(client)
    fill(client, 11, page_records=page_records)
    live: list[int] = []
    resent: list[tuple[int, int]] = []

    with client.subscriber("orders") as subscriber:
        while len(live) + len(resent) < 14:
            delivery = subscriber.take(10)
            assert delivery is not None, f"nothing came after {live} and {resent}"
            assert delivery.ordering is Ordering.RELAXED
            for record in delivery:
                if record.resend:
                    resent.append((record.offset, record.attempt))
                    delivery.ack(record.offset)
                else:
                    live.append(record.offset)
                    if record.offset in (1, 3, 5):
                        delivery.nack(offset=record.offset)
                    else:
                        delivery.ack(record.offset)
    stats = stats_when(client, "orders", lambda found: found.pending() == 0)

    assert live == list(range(11))
    assert resent == [(1, 1), (3, 1), (5, 1)]
    [account] = stats.subscriptions[0].partitions
    assert (account.acked, account.parked_records, account.holes, stats.identity_ok) == (11, 0, 0, True)


@pytest.mark.parametrize(("priority", "after"), [(-1, [5, 0]), (0, [0, 5]), (1, [0, 5])])
def test_the_priority_says_which_goes_first_when_both_can(
    broker: BrokerServer, client: Client, priority: int, after: list[int]
) -> None:
    """Live first, by age (the record in the retry queue is the older one), or resent first."""
    create(client, resend_priority=priority)
    fill(client, 5)

    with DeliverCall(broker.endpoint, "orders", records=5) as call:
        ahead = call.delivered(5)
        epoch, revision = ahead[0].owner_epoch, ahead[0].revision
        fill(client, 1, first=5)  # there is no credit for it yet
        call.put_credit(1)  # nothing goes before all of this is answered
        call.nack(epoch, revision, 0, 0)
        stats_when(client, "orders", lambda found: found.subscriptions[0].partitions[0].parked_records == 1)
        call.ack(epoch, revision, 1, 4)
        call.put_credit(2)
        came = [offset for one in call.delivered(2) for offset in offsets(one)]

    assert came == after


@pytest.mark.parametrize(
    ("setting", "value"), [("resend_priority", 2), ("resend_priority", -2), ("relaxed_failures_max", 0)]
)
def test_a_wrong_setting_is_refused_by_its_name(client: Client, setting: str, value: int) -> None:
    """Priority 2: refused, naming the field, the value and what is allowed."""
    with failure(Reason.INVALID_SETTING) as refused:
        client.sinks.create("orders", **{setting: value})  # type: ignore[arg-type]

    assert (refused.value.facts["field"], refused.value.facts["value"]) == (setting, str(value))
    assert refused.value.facts["allowed"]


def test_a_wrong_order_is_refused_by_its_name(client: Client) -> None:
    """The same for a word that is none."""
    with failure(Reason.INVALID_SETTING, match="STRICT or RELAXED"):
        client.sinks.create("orders", ordering="LOOSE")


@pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.RELAXED])
def test_without_a_bound_on_attempts_an_error_means_to_send_it_again(client: Client, ordering: Ordering) -> None:
    """``max_attempts`` 0 and one error: resent."""
    create(client, ordering=ordering)
    fill(client, 1)

    with client.subscriber("orders") as subscriber:
        first, second = subscriber.take(10), None
        assert first is not None
        first.nack(reason="it said 503")
        second = subscriber.take(10)
        assert second is not None
        [record] = second
        second.ack(wait=True)

    assert (record.offset, record.attempt, record.resend) == (0, 1, True)
    assert client.sinks.stats("orders").pending() == 0


def test_late_answers_to_what_failed_are_stale_and_all_others_count(broker: BrokerServer, client: Client) -> None:
    """RELAXED order: a nack voids its records' delivery: no late ack counts, before or after redelivery."""
    create(client)
    fill(client, 10, page_records=10)

    with DeliverCall(broker.endpoint, "orders") as call:
        [ahead] = call.delivered(10)
        epoch, revision = ahead.owner_epoch, ahead.revision
        call.nack(epoch, revision, 3, 4)
        [again] = call.delivered(2)
        late = outcomes(call.ack(epoch, revision, 2, 6))
        call.ack(epoch, again.revision, 3, 4)
        call.ack(epoch, revision, 0, 9)

    assert (offsets(again), again.resend, again.revision > revision) == ([3, 4], True, True)
    assert [(one.offset, one.attempt) for one in again.attempts] == [(3, 1)]
    assert late == [(2, 2, "OK"), (3, 4, "STALE"), (5, 6, "OK")]
    assert not [one for one in call.told if one.WhichOneof("response") == "revoked"]
    assert client.sinks.stats("orders").pending() == 0
