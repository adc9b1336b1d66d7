"""A broker is killed while a purge or a seek waits behind a dead letter that is queued and left out of a full group.

The store is held at a write meanwhile, so that the order is the same each time; then the broker continues, and
dies after each of the writes that follow in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from forebay.client import BrokerUnavailable, Client, ClientSettings, Record, RecordState, RetryPolicy, WaitReason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.calls.streams import DeliverCall
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher, let_go, wait_held
from tests.support.processes.stops import Stop

SINK, DEAD, OTHER = "orders", "orders.dlq", "busy"
RECORDS: Final = 6
REJECTED: Final = (2, 3)
ONCE = ClientSettings(retry=RetryPolicy(tries_max=1))
WRITES: Final = 5
"""More than follow until all is durable."""


def until(holds: Callable[[], bool], what: str) -> None:
    """Return when the broker says so."""
    end = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < end, f"not within 30 s: {what}"


def prepare(client: Client) -> None:
    """Six records in pages of one, the first of which is a dead letter already; and another sink."""
    client.sinks.create(SINK, buffer_page_size=1)
    client.sinks.create(OTHER, buffer_page_size=1)
    for number in range(RECORDS):
        client.publish(SINK, [Record(b"%d" % number)])
    with client.subscriber(SINK) as subscriber:
        next(subscriber).dead_letter("never", offset=0, wait=True)


def reject(call: DeliverCall, first: pb.Delivery) -> None:
    """Send records to the dead letters, and wait for no answer."""
    ranges = [record_pb2.OffsetRange(first_offset=REJECTED[0], last_offset=REJECTED[-1])]
    nack = pb.NackRanges(partition=0, owner_epoch=first.owner_epoch, revision=first.revision, ranges=ranges)
    nack.dead_letter.reason = "never"
    call.put(pb.DeliverRequest(nack=nack))


def overtake(client: Client, how: str) -> None:
    """Purge the sink, or move the subscription after all that is there; the broker may die of it."""
    try:
        if how == "purge":
            client.sinks.purge(SINK)
        else:
            client.subscriptions.seek(SINK, to="latest")
    except BrokerUnavailable:
        return


def publish(client: Client, record: bytes) -> None:
    try:
        client.publish(OTHER, [Record(record)])
    except BrokerUnavailable:
        return


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", range(1, WRITES + 1))
@pytest.mark.parametrize("how", ["purge", "seek"])
def test_a_purge_or_seek_after_a_dead_letter_that_waits_for_room_never_becomes_durable_before_it(
    how: str, dies_at: int, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        prepare(client)
        assert broker.terminate() == 0

    held = Stop("write", "before", kind="page", hold=True, dies_at=dies_at, small_groups=True)
    with (
        launcher.start_to(held, store, listen) as broker,
        Client(listen, settings=ONCE) as client,
        ThreadPoolExecutor(3) as asking,
    ):
        broker.ready()
        client.info()
        with DeliverCall(listen, SINK) as call:
            first = call.delivered(RECORDS - 1)[0]
            asking.submit(publish, client, b"first")
            wait_held(store)
            asking.submit(publish, client, b"second")
            until(lambda: client.sinks.explain(OTHER, 1).wait is WaitReason.COMMIT, "the second page waits")
            reject(call, first)
            until(lambda: client.sinks.explain(DEAD, 1).wait is WaitReason.COMMIT, "the dead letters wait")
            overtaking = asking.submit(overtake, client, how)
            call.next("revoked")  # it is decided, in memory, and waits for its batch
            let_go(store)
            assert broker.wait() == -9
            overtaking.result(30)

    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        origin, dead = client.sinks.stats(SINK), client.sinks.stats(DEAD)
        letters = [letter.origin_offset for letter in client.dead_letters.list(SINK)]
        [account] = origin.subscriptions[0].partitions
        lifetime = account.lifetime
        left = [offset for offset in range(RECORDS) if client.sinks.explain(SINK, offset).state is RecordState.PENDING]
    assert (origin.identity_ok, dead.identity_ok) == (True, True)
    assert letters in ([0], [0, *REJECTED])
    assert lifetime.dead_lettered == len(letters)
    assert len(letters) + lifetime.dropped + lifetime.skipped + len(left) == RECORDS
    if letters == [0]:
        assert (lifetime.dropped, lifetime.skipped) == (0, 0)
