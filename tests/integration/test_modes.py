"""Buffer modes over the wire: settings, receipts, deliveries, statistics, and where a record is said to be."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import BufferMode, Client, DropReason, Durability, Record, RecordPlace
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2
from tests.support.calls.streams import DeliverCall, PublishCall, offsets
from tests.support.refusals import failure

SINK = "orders"


def spilling(client: Client, memory: int = 2) -> None:
    client.sinks.create(SINK, buffer_mode="SPILL", memory_cache_threshold=memory, buffer_page_size=1)


def name(durability: record_pb2.Durability) -> str:
    return record_pb2.Durability.Name(durability).removeprefix("DURABILITY_")


def test_receipts_and_deliveries_tell_what_was_reached(client: Client, broker: BrokerServer) -> None:
    spilling(client)
    endpoint = broker.endpoint
    with PublishCall(endpoint, SINK, "writer") as call:
        levels = [Durability(name(call.publish(n, [b"%d" % n]).durability)) for n in range(4)]
        again = name(call.publish(0, [b"0"]).durability)
    with DeliverCall(endpoint, SINK, records=2) as reader:
        [first] = reader.delivered(2)
        reader.ack(first.owner_epoch, first.revision, 0, 1)
        [second] = reader.delivered(2)

    assert levels == [Durability.MEMORY] * 2 + [Durability.DISK] * 2
    assert again == "MEMORY"
    assert (name(first.durability), offsets(first)) == ("MEMORY", [0, 1])
    assert (name(second.durability), offsets(second)) == ("DISK", [2, 3])


def test_statistics_tell_memory_from_disk_and_explain_where_a_record_is(client: Client) -> None:
    spilling(client)
    client.publish(SINK, [Record(b"%d" % n) for n in range(2)])
    client.publish(SINK, [Record(b"more")])

    [part] = client.sinks.stats(SINK).partitions
    assert (part.records, part.memory_records, part.durability) == (3, 2, Durability.MEMORY)
    assert client.sinks.explain(SINK, 0).place is RecordPlace.MEMORY
    assert client.sinks.explain(SINK, 2).place in {RecordPlace.RECENT, RecordPlace.DISK}


def test_a_purge_takes_what_only_memory_holds(client: Client) -> None:
    spilling(client)
    for number in range(4):
        client.publish(SINK, [Record(b"%d" % number)])

    client.sinks.purge(SINK)

    stats = client.sinks.stats(SINK)
    [part] = stats.partitions
    assert (part.records, part.memory_records, part.dropped, stats.identity_ok) == (0, 0, {DropReason.PURGED: 4}, True)
    [receipt] = client.publish(SINK, [Record(b"after")])
    assert (receipt.first_offset, receipt.durability) == (4, Durability.MEMORY)


def test_replay_and_peek_read_memory_and_disk_in_one_order(client: Client) -> None:
    spilling(client)
    for number in range(5):
        client.publish(SINK, [Record(b"%d" % number)])

    replayed = [record.value for record in client.replay(SINK, partition=0, start=0) if hasattr(record, "value")]
    assert replayed == [b"0", b"1", b"2", b"3", b"4"]


def test_a_subscription_made_later_and_a_seek_meet_what_memory_holds(client: Client) -> None:
    spilling(client, memory=100)
    for number in range(4):
        client.publish(SINK, [Record(b"%d" % number)])
    client.subscriptions.create(SINK, "late", start="earliest")

    stats = client.sinks.stats(SINK)
    assert stats.pending("late") == 4


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"buffer_mode": "SPILL", "memory_cache_threshold": 0}, "memory_cache_threshold"),
        ({"buffer_mode": "SPILL", "memory_cache_threshold": 1, "buffer_page_size": 2}, "memory_cache_threshold"),
        ({"volatile": True}, "volatile"),
    ],
)
def test_wrong_combinations_are_refused_naming_the_setting(
    client: Client, settings: dict[str, object], field: str
) -> None:
    with failure(Reason.INVALID_SETTING) as refusal:
        client.sinks.create(SINK, **settings)  # type: ignore[arg-type]

    assert refusal.value.facts["field"] == field


def test_a_negative_threshold_never_leaves_the_client(client: Client) -> None:
    with failure(Reason.INVALID_SETTING, match="memory_cache_threshold"):
        client.sinks.create(SINK, memory_cache_threshold=-1)


def test_the_mode_cannot_be_changed_and_the_rest_can(client: Client) -> None:
    spilling(client)

    with failure(Reason.INVALID_SETTING, match="as at creation: SPILL"):
        client.sinks.update(SINK, buffer_mode="DISK")
    changed = client.sinks.update(SINK, memory_cache_threshold=50, fsync=False, volatile=True)

    assert changed.settings.buffer_mode is BufferMode.SPILL
    assert (changed.settings.memory_cache_threshold, changed.settings.fsync, changed.settings.volatile) == (
        50,
        False,
        True,
    )
