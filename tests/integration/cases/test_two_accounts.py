"""Overflow drops a page that two subscriptions have settled differently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.client import Client, Record, SubscriptionPartitionStats


def account(client: Client, name: str) -> SubscriptionPartitionStats:
    """The account of a subscription, with its elapsed times set to zero."""
    stats = client.sinks.stats("orders")
    assert stats.identity_ok
    found = next(one for one in stats.subscriptions if one.name == name).partitions[0]
    realtime, catch_up = (replace(lag, age_s=0.0) for lag in (found.realtime_lag, found.catch_up_lag))
    return replace(found, pending_age_s=0.0, mode_time_s=0.0, realtime_lag=realtime, catch_up_lag=catch_up)


def test_both_accounts_balance_after_overflow_drops_a_page_that_one_subscription_has_half_acked(client: Client) -> None:
    """A subscription's acks stay; its other records are dropped, and the whole page is for the other one."""
    client.sinks.create("orders", buffer_page_size=4, max_disk_cache=8, overflow="DROP_OLDEST", ack_deadline_s=60.0)
    client.subscriptions.create("orders", "nothing")
    for page in range(2):
        client.publish("orders", [Record(b"%d" % number) for number in range(4 * page, 4 * page + 4)])
    client.ack("orders", client.pull("orders", max_records=2))

    client.publish("orders", [Record(b"x")] * 4)

    half, nothing = account(client, "default"), account(client, "nothing")
    assert (half.acked, half.dropped, half.pending) == (2, 2, 8)
    assert (nothing.acked, nothing.dropped, nothing.pending) == (0, 4, 8)
    assert client.sinks.stats("orders").partitions[0].dropped == {"OVERFLOW": 4}


@pytest.mark.parametrize("name", ["default", "nothing"])
def test_a_seek_of_one_of_them_afterwards_leaves_the_other_as_it_was(client: Client, name: str) -> None:
    """And then one is moved back into the gap: its new account counts what is missing there as dropped."""
    client.sinks.create("orders", buffer_page_size=4, max_disk_cache=8, overflow="DROP_OLDEST", ack_deadline_s=60.0)
    client.subscriptions.create("orders", "nothing")
    client.publish("orders", [Record(b"x")] * 4)
    client.ack("orders", client.pull("orders", max_records=2))
    for _ in range(2):
        client.publish("orders", [Record(b"x")] * 4)
    other = "nothing" if name == "default" else "default"
    before = account(client, other)

    client.subscriptions.seek("orders", name, to=1)

    moved = account(client, name)
    assert (moved.start_offset, moved.acked, moved.dropped, moved.pending) == (1, 0, 3, 8)
    assert moved.lifetime.skipped == 8
    assert account(client, other) == before
