"""Sinks whose newest records only memory holds: a real broker is killed, and what the next one says is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.repair.command import verify
from forebay.client import BufferMode, Client, DropReason, Durability, PartitionStats, Record, SinkStats
from tests.support.calls.streams import DeliverCall, PublishCall, offsets
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"


def lost(stats: SinkStats) -> int:
    return sum(part.dropped.get(DropReason.LOST_IN_CRASH, 0) for part in stats.partitions)


def only(stats: SinkStats) -> PartitionStats:
    [part] = stats.partitions
    assert stats.identity_ok
    return part


def append(client: Client, first: int, end: int) -> list[tuple[int | None, Durability]]:
    client.info()  # waits for the connection: a publish in one call is not tried again
    found: list[tuple[int | None, Durability]] = []
    for number in range(first, end):
        [receipt] = client.publish(SINK, [Record(b"%d" % number)])
        found.append((receipt.first_offset, receipt.durability))
    return found


@pytest.mark.slow
def test_a_kill_of_a_spilling_sink_loses_memory_exactly_counted_and_no_offset_is_reused(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """Four in memory, four on the disk; one acked of each stays acked."""
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=BufferMode.SPILL, memory_cache_threshold=4, buffer_page_size=1)
            receipts = append(client, 0, 8)
            with DeliverCall(listen, SINK) as call:
                first = call.delivered(8)[0]
                call.ack(first.owner_epoch, first.revision, 0, 0)
                call.ack(first.owner_epoch, first.revision, 5, 5)
            stats = client.sinks.stats(SINK)
        broker.kill()
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = only(client.sinks.stats(SINK))
            with DeliverCall(listen, SINK) as call:
                gap = call.next("gap").gap
                seen = [offset for one in call.delivered(3) for offset in offsets(one)]
            [more] = append(client, 8, 9)

    assert [level for _, level in receipts] == [Durability.MEMORY] * 4 + [Durability.DISK] * 4
    assert (only(stats).memory_records, only(stats).records) == (3, 7)  # one was settled and trimmed
    assert found.dropped == {DropReason.LOST_IN_CRASH: 3}
    assert (gap.first_offset, gap.last_offset, gap.at_most) == (1, 3, False)
    assert seen == [4, 6, 7]
    assert more[0] == 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", [BufferMode.SPILL, BufferMode.MEMORY])
def test_unacked_records_in_memory_at_a_kill_are_lost_in_the_crash_and_are_no_damage(
    mode: BufferMode, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """Eight in memory in pages of four, two of them acked: neither `verify` nor a start finds damage."""
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=mode, memory_cache_threshold=8, buffer_page_size=4)
            for _ in range(2):
                client.publish(SINK, [Record(b"x")] * 4)
            with DeliverCall(listen, SINK) as call:
                first = call.delivered(8)[0]
                call.ack(first.owner_epoch, first.revision, 0, 1)
        broker.kill()
    report = verify(in_memory / "store")
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found, repairs = only(client.sinks.stats(SINK)), client.info().repairs

    assert (report.clean, repairs) == (True, ())
    assert (found.next_offset, found.dropped) == (8, {DropReason.LOST_IN_CRASH: 6})


@pytest.mark.slow
@pytest.mark.parametrize("mode", [BufferMode.SPILL, BufferMode.MEMORY])
def test_records_that_a_consumer_dropped_before_a_kill_keep_their_reason_and_the_others_in_memory_are_lost(
    mode: BufferMode, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """Eight in memory in pages of four, two of them dropped by the consumer."""
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=mode, memory_cache_threshold=8, buffer_page_size=4)
            for _ in range(2):
                client.publish(SINK, [Record(b"x")] * 4)
            with DeliverCall(listen, SINK) as call:
                first = call.delivered(8)[0]
                call.drop(first.owner_epoch, first.revision, 1, 2)
        broker.kill()
    report = verify(in_memory / "store")
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found, repairs = only(client.sinks.stats(SINK)), client.info().repairs

    assert (report.clean, repairs) == (True, ())
    assert found.next_offset == 8
    assert found.dropped == {DropReason.LOST_IN_CRASH: 6, DropReason.REJECTED_BY_TARGET: 2}


@pytest.mark.slow
def test_ten_on_the_disk_come_before_a_new_one_after_a_kill(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=BufferMode.SPILL, memory_cache_threshold=1, buffer_page_size=1)
            append(client, 0, 11)  # the first in memory
        broker.kill()
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            append(client, 11, 12)
            with DeliverCall(listen, SINK) as call:
                seen = [offset for one in call.delivered(11) for offset in offsets(one)]

    assert seen == list(range(1, 12))


@pytest.mark.slow
def test_a_publisher_that_has_outrun_the_broker_is_notified_and_continues(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with launcher.start(in_memory / "store", listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        client.sinks.create(SINK, buffer_mode=BufferMode.MEMORY, memory_cache_threshold=1_000)
        with client.publisher(SINK, linger_ms=0.0) as publisher:
            before = [publisher.send(b"%d" % number).result(30) for number in range(5)]
            broker.kill()
            with launcher.start(in_memory / "store", listen) as again:
                again.ready()
                after = [publisher.send(b"%d" % number).result(30) for number in range(5, 8)]
                stats = client.sinks.stats(SINK)
                publisher.flush(30)
                assert again.terminate() == 0

    assert [receipt.first_offset for receipt in before] == [0, 1, 2, 3, 4]
    assert [receipt.first_offset for receipt in after] == [5, 6, 7]
    assert not any(receipt.duplicate for receipt in after)
    assert (lost(stats), only(stats).records) == (5, 3)


@pytest.mark.slow
def test_on_the_wire_the_broker_shows_that_it_is_behind(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=BufferMode.SPILL, memory_cache_threshold=300)
        with PublishCall(listen, SINK, "writer") as call:
            epoch = call.opened.writer_epoch
            call.publish(0, [b"a"])
            call.publish(1, [b"b"])
        broker.kill()
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with PublishCall(listen, SINK, "writer", epoch=epoch) as call:
            behind = dict(call.opened.next_sequences)
        with PublishCall(listen, SINK, "writer") as call:
            receipt = call.publish(2, [b"c"])

    assert behind == {}
    assert receipt.first_offset == 2


@pytest.mark.slow
def test_without_fsync_a_kill_loses_nothing(launcher: StoppingLauncher, listen: str, in_memory: Path) -> None:
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, fsync=False)
            levels = {level for _, level in append(client, 0, 20)}
        broker.kill()
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = only(client.sinks.stats(SINK))
            [more] = append(client, 20, 21)

    assert levels <= {Durability.PROCESS, Durability.DISK}
    assert Durability.PROCESS in levels
    assert (found.records, found.next_offset, dict(found.dropped)) == (20, 20, {})
    assert more[0] == 20


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["SPILL", "volatile", "MEMORY"])
def test_a_stop_keeps_spilled_records_and_counts_what_other_modes_drop(
    mode: str, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    chosen = BufferMode.MEMORY if mode == "MEMORY" else BufferMode.SPILL
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(
                SINK,
                buffer_mode=chosen,
                memory_cache_threshold=100,
                buffer_page_size=1,
                volatile=mode == "volatile",
            )
            with PublishCall(listen, SINK, "writer") as call:
                epoch = call.opened.writer_epoch
                call.publish(0, [b"a"])
                call.publish(1, [b"b"])
        assert broker.terminate() == 0
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = only(client.sinks.stats(SINK))
            with PublishCall(listen, SINK, "writer", epoch=epoch) as call:
                expected = dict(call.opened.next_sequences)
                repeated = call.publish(1, [b"b"]) if expected else None

    if mode == "SPILL":
        assert (found.records, found.memory_records, dict(found.dropped)) == (2, 0, {})
        assert expected == {0: 2}  # what was stored is known by its number too
        assert repeated is not None
        assert (repeated.duplicate, repeated.first_offset) == (True, 1)
    else:
        reason = DropReason.WIPED_AT_START if mode == "volatile" else DropReason.CLEANED_AT_STOP
        assert (found.records, found.next_offset, dict(found.dropped)) == (0, 2, {reason: 2})


@pytest.mark.slow
def test_a_stop_keeps_the_place_of_a_writer_whose_pages_were_settled_in_memory(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, buffer_mode=BufferMode.SPILL, memory_cache_threshold=100, buffer_page_size=1)
            with PublishCall(listen, SINK, "writer") as call:
                epoch = call.opened.writer_epoch
                call.publish(0, [b"a"])
                call.publish(1, [b"b"])
            with client.subscriber(SINK) as subscriber:
                settled = 0
                while settled < 2:
                    delivery = next(subscriber)
                    delivery.ack(wait=True)
                    settled += len(delivery)
        assert broker.terminate() == 0
    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with PublishCall(listen, SINK, "writer", epoch=epoch) as call:
            expected = dict(call.opened.next_sequences)
            repeated = call.publish(1, [b"b"])
        with Client(listen, settings=SETTINGS) as client:
            found = only(client.sinks.stats(SINK))

    assert expected == {0: 2}
    assert repeated.duplicate
    assert (found.records, found.next_offset) == (0, 2)


@pytest.mark.slow
def test_ten_kills_in_a_row_use_no_offset_twice_and_count_each_loss(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """With kills for restarts."""
    given: list[int | None] = []
    for round_ in range(10):
        with launcher.start(in_memory / "store", listen) as broker:
            broker.ready()
            with Client(listen, settings=SETTINGS) as client:
                if round_ == 0:
                    client.sinks.create(
                        SINK, buffer_mode=BufferMode.SPILL, memory_cache_threshold=3, buffer_page_size=1
                    )
                given += [offset for offset, _ in append(client, 0, 1 + round_ % 5)]
                stats = client.sinks.stats(SINK)
            broker.kill()
        assert stats.identity_ok
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = only(client.sinks.stats(SINK))

    assert given == list(range(len(given)))
    assert found.records + found.dropped.get(DropReason.LOST_IN_CRASH, 0) == len(given) == found.next_offset
