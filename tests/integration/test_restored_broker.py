"""Everybody who is ahead of a broker that was restored from a backup, or at it: the table of the guide on backups.

The clients stay open while the broker is killed, its disk destroyed, and a backup restored under the same address.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from forebay.client import Client, Gap, Receipt
from forebay.client.settings import PublisherOptions
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
