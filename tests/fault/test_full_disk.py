"""The disk is full: appends are refused and recover by themselves, acks continue, and a restart works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, ClientSettings, ForebayError, Record, RetryPolicy, SettleOutcome
from forebay.client.errors import ResourceExhausted
from forebay.errors.reasons import Reason
from tests.fault.test_space import consume, wait_until
from tests.support.calls.eventually import values_of
from tests.support.processes.broker import BrokerProcess, serve_command
from tests.support.refusals import failure

SINK = "orders"
MIB = 1 << 20
DISK_BYTES, RESERVE_BYTES, BALLAST_BYTES = 160 * MIB, 48 * MIB, 24 * MIB
ONCE = ClientSettings(call_timeout_s=10.0, retry=RetryPolicy(tries_max=1))
ROOM = 1 << 40


def test_below_the_reserve_appends_are_refused_acks_work_and_appends_resume_without_a_restart() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store, disk_reserve_bytes=MIB) as server, Client(server.endpoint, settings=ONCE) as one:
        one.sinks.create(SINK)
        one.publish(SINK, [Record(b"before")])
        store.room = MIB
        one.publish(SINK, [Record(b"its batch looks at the disk")])
        with failure(Reason.DISK_FULL) as refused:
            one.publish(SINK, [Record(b"refused")])
        with one.publisher(SINK, linger_ms=0) as publisher:
            waiting = publisher.send(b"waits")
            records = one.pull(SINK)
            results = one.ack(SINK, records)
            early = waiting.done()
            store.room = ROOM
            receipt = waiting.result(20)
        [left] = one.pull(SINK)

    assert (refused.value.reason, refused.value.retry_after_s) == ("DISK_FULL", 1.0)
    assert refused.value.facts == {"free": str(MIB), "reserve": str(MIB)}
    assert [record.value for record in records] == [b"before", b"its batch looks at the disk"]
    assert {result.outcome for result in results} == {SettleOutcome.OK}
    assert not early
    assert receipt.first_offset == 2
    assert left.value == b"waits"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("needs mount")
    command = [mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "forebay-test", str(place)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run([umount, str(place)], check=True)


def serve(disk: Path) -> BrokerProcess:
    """A broker on the small disk."""
    sizes = {"DISK_RESERVE": RESERVE_BYTES, "DISK_BALLAST": BALLAST_BYTES}
    return serve_command(disk / "store", environment={f"FOREBAY_{k}_BYTES": str(v) for k, v in sizes.items()})


def ballast(disk: Path) -> int:
    """Bytes that the broker keeps for a bad day."""
    path = disk / "store" / "ballast"
    return path.stat().st_blocks * 512 if path.exists() else 0


def fill(client: Client) -> list[bytes]:
    """Publish until the disk is full; returns what was acknowledged."""
    values: list[bytes] = []
    while True:
        pages = [b"%06d" % (len(values) + number) + os.urandom(MIB - 1_000) for number in range(5)]
        try:
            client.publish(SINK, [Record(page) for page in pages], partition=0)
        except ResourceExhausted as full:
            if full.reason != "DISK_FULL":
                raise
            return values
        values += pages


@pytest.mark.slow
def test_a_disk_that_records_have_filled_refuses_appends_until_records_are_acked(disk: Path) -> None:
    """A full tmpfs: appends refused, acks work, restart works, space freed, appends work, without a restart."""
    with serve(disk) as broker, Client(broker.ready(), settings=ONCE) as client:
        client.sinks.create(SINK)
        acknowledged = fill(client)
        free = shutil.disk_usage(disk).free
        assert broker.terminate() == 0
    with serve(disk) as again, Client(again.ready(), settings=ONCE) as client:
        acknowledged += fill(client)  # a start makes a little room of its own
        found = values_of(client, SINK)
        with client.publisher(SINK, linger_ms=0) as publisher:
            waiting = publisher.send(b"waits" * 100_000)
            taken = consume(client)
            receipt = waiting.result(30)
            client.publish(SINK, [Record(b"works again")], partition=0)
        assert again.terminate() == 0

    assert len(acknowledged) * MIB > (DISK_BYTES - RESERVE_BYTES - BALLAST_BYTES) / 2
    assert free > RESERVE_BYTES - 8 * MIB
    assert found == acknowledged
    assert taken in (len(acknowledged), len(acknowledged) + 1)
    assert receipt.first_offset == len(acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("left_free", [RESERVE_BYTES // 2, 0], ids=["half of the reserve is left", "nothing is left"])
def test_a_disk_that_another_process_has_filled_costs_nothing_that_was_acknowledged(left_free: int, disk: Path) -> None:
    values = [b"%d" % number * MIB for number in range(10)]
    with serve(disk) as broker, Client(broker.ready(), settings=ONCE) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(value) for value in values], partition=0)
        fillers = fill_up(disk, left_free)
        refusal = refused(client)
        broker.kill()
    for filler in fillers:
        filler.unlink()
    with serve(disk) as again, Client(again.ready(), settings=ONCE) as client:
        found = values_of(client, SINK)
        stats = client.sinks.stats(SINK)
        client.publish(SINK, [Record(b"works again")], partition=0)
        assert consume(client) == len(found) + 1
        assert again.terminate() == 0

    assert found[: len(values)] == values
    assert set(found[len(values) :]) <= {b"x" * 1_000}
    assert refusal.reason == ("DISK_FULL" if left_free else refusal.reason)
    assert stats.identity_ok


def fill_up(disk: Path, left_free: int) -> list[Path]:
    """Fill a disk, all but ``left_free`` bytes, as another process would."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        while (room := shutil.disk_usage(disk).free - left_free) > 0:
            file.write(b"\0" * min(room, MIB))
            file.flush()
    return [filler]


def refused(client: Client) -> ForebayError:
    """Publish until that is refused: the broker checks the disk once a second and after each batch."""
    while True:
        try:
            client.publish(SINK, [Record(b"x" * 1_000)], partition=0)
        except ForebayError as refusal:
            return refusal


@pytest.mark.slow
def test_a_start_on_a_full_disk_works_and_appends_resume_when_there_is_room(disk: Path) -> None:
    """Killed while not a byte is left, started on that disk: the ballast goes first; acks free what they can."""
    values = [b"%d" % number * MIB for number in range(10)]
    with serve(disk) as broker, Client(broker.ready(), settings=ONCE) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(value) for value in values], partition=0)
        wait_until(lambda: ballast(disk) >= BALLAST_BYTES, "a ballast")
        fillers = fill_up(disk, 0)
        broker.kill()
    assert shutil.disk_usage(disk).free == 0

    with serve(disk) as again, Client(again.ready(), settings=ONCE) as client:
        held = ballast(disk)
        found = values_of(client, SINK)
        with failure(Reason.DISK_FULL) as refused:
            client.publish(SINK, [Record(b"refused")], partition=0)
        with client.publisher(SINK, linger_ms=0) as publisher:
            waiting = publisher.send(b"waits")
            taken = consume(client)
            client.sinks.create("second")
            client.sinks.delete("second")
            early = waiting.done()
            for filler in fillers:
                filler.unlink()
            receipt = waiting.result(30)
        wait_until(lambda: ballast(disk) >= BALLAST_BYTES, "the ballast again")
        stats = client.sinks.stats(SINK)
        assert again.terminate() == 0

    assert (held, found) == (0, values)
    assert (refused.value.reason, refused.value.retry_after_s) == ("DISK_FULL", 1.0)
    assert (taken, early) == (len(values), False)
    assert receipt.first_offset == len(values)
    assert stats.identity_ok
