"""Backups of a broker that serves, made and restored by the command line."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.cli.exits import ExitCode
from forebay.cli.main import run
from forebay.client import (
    Backup,
    BackupProgress,
    Client,
    DropReason,
    FailedPrecondition,
    Gap,
    Record,
)
from forebay.errors.reasons import Reason


def settings(folder: Path, data: str = "data", **more: Any) -> Any:
    given = {"listen": "127.0.0.1:0", "data_dir": folder / data, "backup_target": str(folder / "target"), **more}
    return load(**{"disk_reserve_bytes": 0, "disk_ballast_bytes": 0, **given})


class Commands:
    """The backup commands on one target, with their results as JSON."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._target = ("--target", str(folder / "target"), "-o", "json")
        self._capsys = capsys

    def code(self, command: str, *args: str) -> int:
        """Run a command; returns its exit code."""
        return run(["backup", command, *args, *self._target])

    def __call__(self, command: str, *args: str) -> Any:
        """Run a command that succeeds; returns its result."""
        self._capsys.readouterr()
        assert self.code(command, *args) == ExitCode.OK
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


def records_of(client: Client, sink: str) -> list[bytes]:
    with client.replay(sink, on_gap="yield") as replay:
        return [found.value for found in replay if not isinstance(found, Gap)]


def made(client: Client, *, full: bool = False) -> Backup:
    *_, last = client.backups.create(full=full)
    assert isinstance(last, Backup)
    return last


def test_a_broker_backs_itself_up_and_the_restored_one_continues(tmp_path: Path, backup: Commands) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        client.publish("orders", [Record(b"%d" % n) for n in range(100)], partition=0)
        first = made(client)
        client.publish("orders", [Record(b"x" * 100_000) for _ in range(20)], partition=1)
        second = made(client)
        store_id, incarnation = client.info().store_id, client.sinks.get("orders").incarnation
        before = records_of(client, "orders")
        status = client.backups.status()
        client.publish("orders", [Record(b"lost")], partition=0)

    assert (first.parent, second.parent) == ("", first.id)
    assert status.newest == second
    listed = backup("list")
    assert [(one["id"], one["state"], one["records"]) for one in listed] == [
        (first.id, "complete", 100),
        (second.id, "complete", 120),
    ]
    assert backup("verify")["clean"]
    report = backup("restore", "--into", str(tmp_path / "new"))
    assert [part["records"] for part in report["sinks"][0]["partitions"]] == [100, 20]

    with BrokerServer.on_disk(settings(tmp_path, "new")) as server, Client(server.endpoint) as client:
        assert client.info().store_id == report["store_id"] != store_id
        assert client.sinks.get("orders").incarnation == incarnation
        assert records_of(client, "orders") == before
        [receipt] = client.publish("orders", [Record(b"after")], partition=0)
        assert receipt.first_offset == report["sinks"][0]["partitions"][0]["resumes_at"]
        gaps = [gap for gap in client.sinks.gaps("orders") if gap.partition == 0]
        assert [(gap.first_offset, gap.reason) for gap in gaps] == [(100, DropReason.RESTORED)]


def test_one_sink_is_restored_into_a_running_broker_under_another_name(tmp_path: Path, backup: Commands) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2, ack_deadline_s=7.0)
        client.sinks.create("others")
        schema = pa.schema([("number", pa.int64())])
        version = client.schemas.register("others", schema.serialize().to_pybytes(), previous=0)
        given = [Record(b"%d" % n, key=b"k", headers={"h": b"v"}) for n in range(50)]
        client.publish("orders", given, partition=1)
        made(client)
        client.publish("orders", [Record(b"later")], partition=1)
        given_to = ("--endpoint", server.endpoint, "--work-dir", str(tmp_path))
        copied = backup("restore", "--sink", "orders", "--as", "orders-old", *given_to)
        backup("restore", "--sink", "others", "--as", "others-old", *given_to)

        assert [(part["records"], part["last_offset"]) for part in copied["partitions"]] == [(0, None), (50, 49)]
        assert records_of(client, "orders-old") == [one.value for one in given]
        with client.replay("orders-old", partition=1, start=0) as replay:
            first = next(iter(replay))
        assert not isinstance(first, Gap)
        assert (first.key, dict(first.headers)) == (b"k", {"h": b"v"})
        assert client.sinks.get("orders-old").settings == client.sinks.get("orders").settings
        assert [one.version for one in client.schemas.list("others-old")] == [version]
        assert len(records_of(client, "orders")) == 51
        assert backup.code("restore", "--sink", "orders", "--as", "orders-old", *given_to) == ExitCode.REFUSED
        assert backup.code("restore", "--sink", "absent", "--as", "new", *given_to) == ExitCode.NOT_FOUND
        assert backup.code("restore", "--sink", "orders") == ExitCode.USAGE


def test_a_restore_reports_the_publishers_that_may_continue(
    tmp_path: Path, backup: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        BrokerServer.on_disk(settings(tmp_path)) as server,
        Client(server.endpoint) as client,
    ):
        client.sinks.create("orders")
        client.sinks.create("others")
        with client.publisher("orders") as publisher:
            publisher.send(b"1").result()
            made(client)
    report = backup("restore", "--into", str(tmp_path / "new"))
    assert [(sink["name"], sink["writers"]) for sink in report["sinks"]] == [("orders", 1), ("others", 0)]

    target = ("--target", str(tmp_path / "target"))
    assert run(["backup", "restore", "--into", str(tmp_path / "other"), *target]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    publishers = [line.split() for line in lines[lines.index(next(line for line in lines if "may continue" in line)) :]]
    assert ["orders", "1"] in publishers
    assert not any(line[:1] == ["others"] for line in publishers)


def test_consumers_with_saved_positions_continue_after_the_loss_of_the_disk(tmp_path: Path, backup: Commands) -> None:
    """Drill: back up, destroy the directory, restore; one consumer was behind the backup, one ahead."""
    positions = f"file://{tmp_path / 'positions'}"
    seen: dict[str, list[bytes]] = {"behind": [], "ahead": []}

    def consume(client: Client, name: str, limit: int) -> list[Gap]:
        gaps: list[Gap] = []
        with client.consumer("orders", name, follow=False, store=positions) as consumer:
            for batch in consumer:
                for record in batch:
                    if isinstance(record, Gap):
                        gaps.append(record)
                    else:
                        seen[name].append(record.value)
                if len(seen[name]) >= limit:
                    break
        return gaps

    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", buffer_page_size=1)
        for number in range(10):
            client.publish("orders", [Record(b"%d" % number)])
        consume(client, "behind", 5)
        made(client)
        for number in range(10, 20):
            client.publish("orders", [Record(b"%d" % number)])
        consume(client, "ahead", 15)
    shutil.rmtree(tmp_path / "data")
    report = backup("restore", "--into", str(tmp_path / "data"))
    assert report["sinks"][0]["partitions"][0]["records"] == 10

    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.publish("orders", [Record(b"new")])
        told = {name: consume(client, name, 1_000) for name in seen}

    assert set(map(int, seen["behind"][:-1])) == set(range(10))
    assert seen["behind"][-1] == seen["ahead"][-1] == b"new"
    assert set(map(int, seen["ahead"][:-1])) >= set(range(14))
    assert [gap.reason for gaps in told.values() for gap in gaps] == [DropReason.RESTORED] * 2


def test_a_reader_that_is_ahead_of_the_backup_is_notified_and_continues_after_the_gap(
    tmp_path: Path, backup: Commands
) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"1")])
        made(client)
        client.publish("orders", [Record(b"2"), Record(b"3")])
    backup("restore", "--into", str(tmp_path / "new"))

    with BrokerServer.on_disk(settings(tmp_path, "new")) as server, Client(server.endpoint) as client:
        client.publish("orders", [Record(b"4")])
        with client.replay("orders", partition=0, start=3, follow=False, on_gap="yield") as replay:
            gap, record = list(replay)

    assert isinstance(gap, Gap)
    assert (gap.reason, gap.first_offset) == (DropReason.RESTORED, 3)
    assert not isinstance(record, Gap)
    assert record.value == b"4"


def test_records_acked_after_the_backup_are_redelivered(tmp_path: Path, backup: Commands) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"1"), Record(b"2")])
        [first] = client.pull("orders", max_records=1)
        client.ack("orders", [first])
        backup_made = made(client)
        [second] = client.pull("orders", max_records=1)
        client.ack("orders", [second])
    backup("restore", "--into", str(tmp_path / "new"))

    with BrokerServer.on_disk(settings(tmp_path, "new")) as server, Client(server.endpoint) as client:
        info = client.info()
        explained = [client.sinks.explain("orders", offset).text for offset in range(3)]
        again = client.pull("orders", max_records=10)

    assert [(one.value, one.resend) for one in again] == [(b"2", True)]
    assert (info.restored_from, info.restored_backup_at) == (backup_made.id, backup_made.taken_at)
    assert info.restored_at is not None
    assert info.restored_at > backup_made.taken_at
    assert "restored" not in explained[0]
    assert all(f"from the backup {backup_made.id} of 20" in text for text in explained[1:])
    assert "if it was acked after the backup, it is delivered again" in explained[1]
    assert "a record that got it after the backup is lost" in explained[2]


def test_the_progress_is_reported_and_a_call_that_ends_early_leaves_an_incomplete_backup(
    tmp_path: Path, backup: Commands
) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        events = client.backups.create()
        first = next(events)
        assert isinstance(first, BackupProgress)
        assert first.id
        events.close()
        done = made_when_free(client)

    listed = backup("list")
    assert [one["state"] for one in listed if one["id"] == done.id] == ["complete"]
    assert {one["state"] for one in listed} <= {"complete", "incomplete"}


def made_when_free(client: Client) -> Backup:
    while True:
        try:
            return made(client)
        except FailedPrecondition as refused:
            if refused.reason != Reason.BACKUP_RUNNING.name:
                raise


def test_one_backup_at_a_time(tmp_path: Path) -> None:
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        events = client.backups.create()
        next(events)
        refusals: list[str] = []

        def second() -> None:
            try:
                made(client)
            except FailedPrecondition as refused:
                refusals.append(refused.reason)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        list(events)

    assert refusals in ([Reason.BACKUP_RUNNING.name], [])  # the first may be complete by then


def test_a_broker_without_a_target_refuses_a_backup() -> None:
    with BrokerServer.in_memory() as server, Client(server.endpoint) as client:
        with pytest.raises(FailedPrecondition) as refused:
            list(client.backups.create())

        assert refused.value.reason == Reason.NO_BACKUP_TARGET.name
        assert client.backups.status().target == ""


def test_a_target_that_cannot_be_written_fails_the_backup_and_not_the_broker(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    with BrokerServer.on_disk(settings(tmp_path)) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        with pytest.raises(FailedPrecondition, match="backup target") as refused:
            list(client.backups.create())
        client.publish("orders", [Record(b"1")])

        assert refused.value.reason == Reason.BACKUP_FAILED.name
        assert client.backups.status().failures == 1


def test_a_scheduled_backup_is_made_by_itself_and_old_ones_go(tmp_path: Path, backup: Commands) -> None:
    given = settings(tmp_path, backup_interval_s=0.2, backup_keep_last=2)
    seen: set[str] = set()
    with BrokerServer.on_disk(given) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        while len(seen) < 4:
            newest = client.backups.status().newest
            if newest is not None:
                seen.add(newest.id)

    listed = backup("list")
    assert len([one for one in listed if one["state"] == "complete"]) <= 3


def test_an_unknown_backup_is_not_found(backup: Commands) -> None:
    assert backup.code("verify", "--id", "absent") == ExitCode.NOT_FOUND
