"""A broker that starts on an empty disk is killed again and again before it has all pages."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from forebay.client import Client, ReplayedRecord
from forebay.client.errors import ForebayError
from tests.support.calls.eventually import until
from tests.support.processes.broker import BrokerProcess, Launcher
from tests.support.processes.shard import Shard

RECORDS: Final = 96
RECORD_BYTES: Final = 1 << 20
SETTLED: Final = 8
GARBAGE: Final = 8 << 20
KILLS: Final = 6
KILL_MAX_S: Final = 2.5
"""Time from a start to its kill: some come before the first receipt, some after the last page."""


def record(number: int) -> bytes:
    """A record that has its number, and does not compress to nothing."""
    return number.to_bytes(8, "big") + random.Random(number).randbytes(RECORD_BYTES)


def fill(shard: Shard, directory: Path) -> None:
    """Publish and settle some, with a checkpoint on the way; then the disk is lost."""
    with shard.start("b", journal_garbage_bytes=GARBAGE) as owner, Client(owner.ready()) as client:
        client.sinks.create("orders")
        with client.publisher("orders") as publisher:
            publisher.send_many([record(number) for number in range(RECORDS // 2)])
            publisher.flush()
            for delivery in client.subscriber("orders"):
                if delivery.last_offset >= SETTLED:
                    delivery.ack_until(SETTLED - 1, wait=True)
                    break
                delivery.ack(wait=True)
            until(lambda: any((shard.journal / "voided").glob("*")), timeout_s=60.0)
            publisher.send_many([record(number) for number in range(RECORDS // 2, RECORDS)])
        owner.kill()
    shutil.rmtree(directory)


def numbers_of(client: Client) -> list[int]:
    """Numbers of all records that are left, each compared with what was published."""
    found: list[int] = []
    for each in client.replay("orders", on_gap="raise"):
        assert isinstance(each, ReplayedRecord)
        number = int.from_bytes(each.value[:8], "big")
        assert each.value == record(number)
        found.append(number)
    return found


def publish_until_killed(broker: BrokerProcess, number: int, kill_at: float) -> bool:
    """Publish one record where the broker serves before its kill; returns whether it has a receipt."""
    has_receipt = False
    if broker.wait_ready(max(0.0, kill_at - time.monotonic())) is not None:
        with Client(broker.endpoint) as client:
            publisher = client.publisher("orders", delivery_timeout_s=max(0.1, kill_at - time.monotonic()))
            try:
                publisher.send(record(number)).result(timeout=30.0)
                has_receipt = True
            except ForebayError:
                pass  # it may be there all the same
            broker.kill()
            publisher.abandon()
    broker.kill()
    return has_receipt


@pytest.mark.slow
@pytest.mark.parametrize("kills", [KILLS])
def test_kills_before_all_pages_are_there_cost_nothing(tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    directory = tmp_path / "b"
    with Launcher() as launcher:
        shard = Shard(launcher, tmp_path)
        fill(shard, directory)
        receipts: list[int] = []
        for number in range(RECORDS, RECORDS + kills):
            broker = shard.start("b", journal_garbage_bytes=GARBAGE)
            if publish_until_killed(broker, number, time.monotonic() + chance.uniform(0.0, KILL_MAX_S)):
                receipts.append(number)
            if chance.random() < 0.5:
                shutil.rmtree(directory, ignore_errors=True)  # it may have been killed before it had one

        with shard.start("b", journal_garbage_bytes=GARBAGE) as last, Client(last.ready(60.0)) as client:
            found = numbers_of(client)
            until(lambda: not (directory / "remote").exists(), timeout_s=60.0)
            assert last.terminate() == 0
        with shard.start("b") as again, Client(again.ready()) as client:
            assert numbers_of(client) == found

    assert found[: RECORDS - SETTLED] == list(range(SETTLED, RECORDS))
    assert set(receipts) <= set(found)
    assert len(found) == len(set(found))
