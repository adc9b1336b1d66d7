"""Each client ahead of a broker restored from a backup, or level with it: the backup guide's table.

The clients stay open while the broker is killed, its disk destroyed, and a backup restored under the same address.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import (
    Client,
    Delivery,
    DropReason,
    Gap,
    InvalidPage,
    PositionUnusable,
    Receipt,
    Record,
    Subscriber,
    arrow,
)
from forebay.client.settings import PublisherOptions
from forebay.deliver import Deliverer
from forebay.deliver.targets.file import FileTarget
from tests.support.processes.backed_up_broker import BackedUpBroker
from tests.support.processes.broker import Launcher


@pytest.fixture(scope="module")
def processes() -> Iterator[Launcher]:
    with Launcher() as one:
        yield one


@pytest.fixture
def broker(processes: Launcher, tmp_path: Path) -> Iterator[BackedUpBroker]:
    """A broker with a sink `orders`."""
    one = BackedUpBroker(processes, tmp_path)
    try:
        with Client(one.endpoint) as client:
            client.sinks.create("orders", partitions=2)
        yield one
    finally:
        one.close()


@pytest.fixture
def client(broker: BackedUpBroker) -> Iterator[Client]:
    with Client(broker.endpoint) as one:
        yield one


def records_of(client: Client, partition: int) -> list[bytes]:
    with client.replay("orders", partition=partition, start=0, on_gap="yield") as replay:
        return [found.value for found in replay if not isinstance(found, Gap)]


# -- publishers


def test_a_publisher_that_is_ahead_continues_and_only_what_was_acknowledged_after_the_backup_is_lost(
    broker: BackedUpBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with client.publisher("orders") as publisher:
        publisher.send(b"before", partition=0).result()
        broker.back_up()
        publisher.send(b"lost 0", partition=0).result()
        publisher.send(b"lost 1", partition=1).result()
        broker.lose()
        sent = [publisher.send(b"%d" % number, partition=number % 2) for number in range(6)]
        report = broker.restore()
        offsets = [future.result().first_offset for future in sent]

    assert records_of(client, 0) == [b"before", b"0", b"2", b"4"]
    assert records_of(client, 1) == [b"1", b"3", b"5"]
    resumed = [part.resumes_at for part in report.sinks[0].partitions]
    assert offsets == [resumed[number % 2] + number // 2 for number in range(6)]
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert any("lost records that it had acknowledged" in record.getMessage() for record in warned)


def test_a_publisher_that_was_opened_after_the_backup_continues_too(broker: BackedUpBroker, client: Client) -> None:
    broker.back_up()
    with client.publisher("orders") as publisher:
        publisher.send(b"lost", partition=0).result()
        broker.lose_and_restore()
        for number in range(3):
            publisher.send(b"%d" % number, partition=0).result()

    assert records_of(client, 0) == [b"0", b"1", b"2"]


def test_a_publisher_whose_epoch_was_issued_after_the_backup_sends_what_has_no_receipt_exactly_once(
    broker: BackedUpBroker, client: Client
) -> None:
    broker.back_up()
    with client.publisher("orders") as publisher:
        broker.lose()
        sent = [publisher.send(b"%d" % number, partition=0) for number in range(3)]
        broker.restore()
        first = [future.result() for future in sent]
        broker.restart()
        second = publisher.send(b"3", partition=0).result()

    assert not any(receipt.duplicate for receipt in [*first, second])
    assert records_of(client, 0) == [b"0", b"1", b"2", b"3"]


def test_a_publisher_at_the_backup_continues_without_a_repeat(broker: BackedUpBroker, client: Client) -> None:
    with client.publisher("orders") as publisher:
        for number in range(3):
            publisher.send(b"%d" % number, partition=0).result()
        broker.back_up()
        broker.lose_and_restore()
        for number in range(3, 6):
            publisher.send(b"%d" % number, partition=0).result()

    assert records_of(client, 0) == [b"%d" % number for number in range(6)]


def test_publishers_under_load_lose_only_what_was_acknowledged_after_the_backup_and_repeat_nothing(
    broker: BackedUpBroker, client: Client
) -> None:
    small: PublisherOptions = {"page_records": 7, "linger_ms": 0.0}
    with client.publisher("orders", **small) as old:
        sent = [old.send(b"%04d" % number, partition=0) for number in range(500)]
        sent[200].result()
        before = sum(future.done() for future in sent)
        broker.back_up()
        with client.publisher("orders", **small) as young:
            sent += [old.send(b"%04d" % number, partition=0) for number in range(500, 1_000)]
            others = [young.send(b"%04d" % number, partition=1) for number in range(1_000)]
            others[100].result()
            report = broker.lose_and_restore()
            sent += [old.send(b"%04d" % number, partition=0) for number in range(1_000, 1_200)]
            others += [young.send(b"%04d" % number, partition=1) for number in range(1_000, 1_200)]

    for partition, futures in enumerate((sent, others)):
        found = records_of(client, partition)
        assert found == sorted(set(found)), "in order, and none twice"
        resumed_at = report.sinks[0].partitions[partition].resumes_at
        after = [number for number, future in enumerate(futures) if _offset(future) >= resumed_at]
        assert set(map(int, found)) >= {*after, *(range(before) if not partition else ())}


def _offset(future: Future[Receipt]) -> int:
    offset = future.result().first_offset
    assert offset is not None
    return offset


# -- consumers with saved positions


def publish(client: Client, *numbers: int) -> None:
    client.info()  # which waits for a broker that was started again
    for number in numbers:
        client.publish("orders", [Record(b"%d" % number)], partition=0)


def consumed(client: Client, store: str, limit: int = 1_000, **options: Any) -> tuple[list[int], list[Gap]]:
    """Numbers that a consumer finishes, and its gaps."""
    numbers: list[int] = []
    gaps: list[Gap] = []
    with client.consumer("orders", "billing", store=store, follow=False, **options) as consumer:
        for batch in consumer:
            for one in batch:
                if isinstance(one, Gap):
                    gaps.append(one)
                else:
                    numbers.append(int(one.value))
            if len(numbers) >= limit:
                batch.finish()
                break
    return numbers, gaps


def test_a_position_in_another_store_that_is_ahead_gets_the_gap_and_repeats_nothing(
    broker: BackedUpBroker, client: Client, tmp_path: Path
) -> None:
    store = f"file://{tmp_path / 'positions'}"
    publish(client, 0, 1, 2)
    broker.back_up()
    publish(client, 3, 4)
    assert consumed(client, store)[0] == [0, 1, 2, 3, 4]
    broker.lose_and_restore()
    publish(client, 5)

    numbers, gaps = consumed(client, store)

    assert numbers == [5]
    assert [(gap.partition, gap.reason) for gap in gaps if gap.partition == 0] == [(0, DropReason.RESTORED)]


def test_a_position_in_the_broker_goes_back_with_it_and_the_log_says_what_is_read_again(
    broker: BackedUpBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    publish(client, 0, 1, 2, 3)
    assert consumed(client, "broker:", limit=2)[0] == [0, 1]
    broker.back_up()
    assert consumed(client, "broker:")[0] == [2, 3]
    broker.lose_and_restore()
    caplog.clear()

    numbers, gaps = consumed(client, "broker:")

    assert numbers == [2, 3]
    assert [gap.reason for gap in gaps if gap.partition == 0] == [DropReason.RESTORED]
    told = [record.getMessage() for record in caplog.records if "are read again" in record.getMessage()]
    assert ["position=2 end_of_backup=4" in text for text in told] == [True]
    caplog.clear()
    assert consumed(client, "broker:")[0] == []
    assert "read again" not in caplog.text


def test_at_most_once_a_position_that_went_back_with_the_broker_is_an_error_until_an_operator_decides(
    broker: BackedUpBroker, client: Client
) -> None:
    once: dict[str, Any] = {"guarantee": "at_most_once"}
    publish(client, 0, 1, 2, 3)
    consumed(client, "broker:", limit=2, **once)
    broker.back_up()
    assert consumed(client, "broker:", **once)[0] == [2, 3]
    broker.lose_and_restore()

    with pytest.raises(PositionUnusable, match="was restored with the broker") as refused:
        consumed(client, "broker:", **once)
    assert refused.value.facts["saved_offset"] == "2"
    assert consumed(client, "broker:", on_misfit="earliest", **once)[0] == [2, 3]


def test_a_consumer_without_a_position_in_the_restored_broker_is_warned_that_one_may_be_lost(
    broker: BackedUpBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    publish(client, 0, 1)
    broker.back_up()
    consumed(client, "broker:")
    broker.lose_and_restore()

    assert consumed(client, "broker:")[0] == [0, 1]
    assert "has no position of this consumer" in caplog.text


@pytest.mark.parametrize("is_known", [True, False], ids=["opened before the backup", "opened after the backup"])
@pytest.mark.parametrize("kind", ["broker", "file"])
def test_a_consumer_that_stays_open_continues_and_saves_after_the_gap(
    broker: BackedUpBroker, client: Client, tmp_path: Path, kind: str, is_known: bool
) -> None:
    store = "broker:" if kind == "broker" else f"file://{tmp_path / 'positions'}"
    publish(client, 0)
    consumed(client, store)
    if not is_known:
        broker.back_up()
    with client.consumer("orders", "billing", store=store, start="earliest") as consumer:
        publish(client, 1)
        seen = [int(one.value) for one in consumer.take() or () if not isinstance(one, Gap)]
        consumer.save()
        if is_known:
            broker.back_up()
        broker.lose_and_restore()
        publish(client, 2)
        while 2 not in seen:
            seen += [int(one.value) for one in consumer.take() or () if not isinstance(one, Gap)]
        consumer.take(0.0)
        consumer.save()

    assert seen == [1, 2]
    assert consumed(client, store)[0] == []


# -- readers and subscriptions that stay open


def test_a_replay_that_stays_open_is_notified_of_the_gap_and_continues_after_it(
    broker: BackedUpBroker, client: Client
) -> None:
    publish(client, 0)
    with client.replay("orders", partition=0, start=0, follow=True, on_gap="yield") as replay:
        found = iter(replay)
        first = next(found)
        broker.back_up()
        publish(client, 1)
        lost = next(found)
        broker.lose_and_restore()
        publish(client, 2)
        gap, last = next(found), next(found)

    assert [one.value for one in (first, lost, last) if not isinstance(one, Gap)] == [b"0", b"1", b"2"]
    assert isinstance(gap, Gap)
    assert (gap.reason, gap.first_offset) == (DropReason.RESTORED, 2)


def test_a_subscriber_that_stays_open_gets_again_what_it_acked_after_the_backup_marked_as_resent(
    broker: BackedUpBroker, client: Client
) -> None:
    publish(client, 0, 1)
    seen: list[tuple[bytes, bool]] = []

    def taken(subscriber: Subscriber, until: bytes) -> list[Delivery]:
        """Deliveries up to the one with that value."""
        found: list[Delivery] = []
        while not found or until not in found[-1].values():
            found.append(next(subscriber))
            seen.extend((one.value, one.resend) for one in found[-1])
        return found

    with client.subscriber("orders") as subscriber:
        first = taken(subscriber, b"1")
        broker.back_up()
        acked = [result.outcome for one in first for result in one.ack(wait=True)]
        broker.lose_and_restore()
        publish(client, 2)
        for delivery in taken(subscriber, b"2"):
            delivery.ack()

    assert {one.name for one in acked} == {"OK"}
    assert seen == [(b"0", False), (b"1", False), (b"0", True), (b"1", True), (b"2", False)]
    assert client.pull("orders") == []


def deliver_all(client: Client, path: Path) -> None:
    """Deliver into files of lines, one per partition, until nothing is left."""
    deliverer = Deliverer(client, "orders", FileTarget(path))
    thread = Thread(target=deliverer.run)
    thread.start()
    try:
        for stats in client.sinks.watch("orders", interval_s=0.1):
            if not any(partition.pending for partition in stats.subscriptions[0].partitions):
                break
    finally:
        deliverer.stop()
        thread.join()


def test_a_deliverer_writes_no_line_again_that_it_wrote_after_the_backup(
    broker: BackedUpBroker, client: Client, tmp_path: Path
) -> None:
    publish(client, 0, 1)
    broker.back_up()
    publish(client, 2)
    deliver_all(client, tmp_path / "out.jsonl")
    report = broker.lose_and_restore()
    assert [one.unsettled for one in report.sinks[0].subscriptions] == [2]
    publish(client, 3)
    deliver_all(client, tmp_path / "out.jsonl")

    lines = (tmp_path / "out-0.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [0, 1, 2, 3]


# -- readers and publishers of rows


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def registered(client: Client, rows: pa.RecordBatch, previous: int) -> int:
    return client.schemas.register("orders", arrow.encode_schema(rows.schema), previous=previous)


def send(client: Client, rows: pa.RecordBatch, version: int) -> None:
    with client.publisher("orders") as publisher:
        publisher.send_page(arrow.page(rows, version), partition=0).result()


def test_a_schema_that_was_registered_after_the_backup_is_never_taken_for_a_later_one(
    broker: BackedUpBroker, client: Client, tmp_path: Path
) -> None:
    before, lost, later = batch(a=[1]), batch(a=[2], lost=[20]), batch(a=[3], later=[30])
    assert registered(client, before, 0) == 1
    send(client, before, 1)
    made = broker.back_up()
    assert registered(client, lost, 1) == 2
    send(client, lost, 2)
    with client.replay_pages("orders", partition=0, start=0, follow=True, on_gap="yield") as pages:
        found = iter(pages)
        seen = [arrow.record_batch(page) for page in (next(found), next(found)) if not isinstance(page, Gap)]
        broker.lose_and_restore(made.id)
        client.info()

        with pytest.raises(InvalidPage, match="no version 2"):
            send(client, lost, 2)
        version = registered(client, later, 1)
        assert version > 2
        send(client, later, version)
        seen += [arrow.record_batch(page) for page in (next(found), next(found)) if not isinstance(page, Gap)]
    assert seen == [before, lost, later]

    broker.back_up()
    target = ("--target", str(tmp_path / "target"), "--endpoint", broker.endpoint, "--work-dir", str(tmp_path))
    assert run(["backup", "restore", "--sink", "orders", "--as", "again", *target]) == ExitCode.OK
    with client.replay_pages("again", partition=0, start=0) as pages:
        assert [arrow.record_batch(page) for page in pages if not isinstance(page, Gap)] == [before, later]
