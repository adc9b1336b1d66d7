"""Copy of one sink of a backup into a running broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import SystemClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.expiry import Expirer
from forebay.broker.settings import BrokerSettings, load
from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage
from forebay.broker.storage.backup.targets import open_target
from forebay.cli.backup import single_sink
from forebay.cli.backup.single_sink import CopiedPartition, CopiedSink, restore_sink
from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed
from forebay.client import BrokerUnavailable, Client, Record, ReplayedRecord, arrow
from forebay.errors.reasons import Reason
from tests.support.refusals import failure

SCHEMAS = [pa.schema([("id", pa.int64())]), pa.schema([("id", pa.int64()), ("name", pa.string())])]


def settings(folder: Path) -> BrokerSettings:
    """Settings of a broker that is backed up."""
    return load(
        listen="127.0.0.1:0",
        data_dir=folder / "data",
        backup_target=str(folder / "target"),
        disk_reserve_bytes=0,
        disk_ballast_bytes=0,
    )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Target with a backup: records in the second partition of `orders`, two schemas of `rows`; no test changes it."""
    folder = tmp_path_factory.mktemp("backed-up")
    taken_from = settings(folder)
    with BrokerServer.on_disk(taken_from) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2, max_attempts=3)
        for first in (0, 10):
            client.publish("orders", [Record(b"%d" % (first + number)) for number in range(10)], partition=1)
        client.sinks.create("rows")
        for previous, schema in enumerate(SCHEMAS):
            client.schemas.register("rows", arrow.encode_schema(schema), previous=previous)
        for _ in client.backups.create():
            pass
    return taken_from.backup_target


@pytest.fixture
def client() -> Iterator[Client]:
    with BrokerServer.in_memory() as server, Client(server.endpoint) as one:
        yield one


class TwoDaysAgo(SystemClock):
    """Clock of a machine two days ago."""

    def wall_us(self) -> int:
        """Return the time of the machine, two days earlier."""
        return super().wall_us() - 2 * 86_400_000_000


def copied_after_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the copy of a sink begin after the temporary broker has looked for expired records."""
    swept = threading.Event()
    sweep, copy = Expirer.sweep, single_sink._copied

    async def noted(self: Expirer, buffer: Buffer) -> None:
        await sweep(self, buffer)
        swept.set()

    def wait(*arguments: Any) -> CopiedSink:
        assert swept.wait(60)
        return copy(*arguments)

    monkeypatch.setattr(Expirer, "sweep", noted)
    monkeypatch.setattr(single_sink, "_copied", wait)


def restored(target: str, client: Client, sink: str, folder: Path) -> CopiedSink:
    """Copy a sink of the newest backup as `again`."""
    opened = open_target(target)
    return restore_sink(
        opened, find(opened, ""), client, sink=sink, restored_as="again", on_damage=OnDamage.STOP, work_dir=folder
    )


def test_the_records_of_each_partition_are_published_and_counted(target: str, client: Client, tmp_path: Path) -> None:
    copied = restored(target, client, "orders", tmp_path)

    again = client.sinks.get("again")
    assert (copied.sink, copied.restored_as, copied.incarnation) == ("orders", "again", again.incarnation)
    assert copied.partitions == (CopiedPartition(0, 0, None, None, 0), CopiedPartition(1, 20, 0, 19, 0))
    with client.replay("again", partition=1) as replay:
        assert [one.value for one in replay if isinstance(one, ReplayedRecord)] == [b"%d" % n for n in range(20)]
    assert (again.settings.partitions, again.settings.max_attempts) == (2, 3)
    assert list(tmp_path.iterdir()) == []


def test_all_schemas_keep_their_versions(target: str, client: Client, tmp_path: Path) -> None:
    copied = restored(target, client, "rows", tmp_path)

    stored = [client.schemas.get("again", version).arrow_schema for version in (1, 2)]
    assert copied.schemas == 2
    assert stored == [arrow.encode_schema(schema) for schema in SCHEMAS]


def test_records_do_not_expire_after_the_backup(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_from = settings(tmp_path)
    with BrokerServer.on_disk(taken_from, TwoDaysAgo()) as server, Client(server.endpoint) as source:
        source.sinks.create("orders", max_age_s=86_400)
        source.publish("orders", [Record(b"old")] * 10)
    with BrokerServer.on_disk(taken_from, TwoDaysAgo()) as server, Client(server.endpoint) as source:
        for _ in source.backups.create():
            pass

    copied_after_a_sweep(monkeypatch)
    copied = restored(taken_from.backup_target, client, "orders", tmp_path)

    assert copied.partitions == (CopiedPartition(0, 10, 0, 9, 0),)


def test_a_sink_that_the_backup_does_not_have_is_not_found_and_nothing_is_made(
    target: str, client: Client, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed, match="has no sink 'absent'") as refused:
        restored(target, client, "absent", tmp_path)

    assert refused.value.code is ExitCode.NOT_FOUND
    assert client.sinks.list() == []


def test_the_environment_of_the_running_broker_is_not_that_of_the_temporary_one(
    target: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = tmp_path / "hashes"
    hashes.touch()
    elsewhere = tmp_path / "elsewhere"
    host, _, port = client.endpoints[0].rpartition(":")
    monkeypatch.setenv("FOREBAY_METRICS_LISTEN", f"{host}:{port}")
    monkeypatch.setenv("FOREBAY_TOKEN_HASHES_FILE", str(hashes))
    monkeypatch.setenv("FOREBAY_BACKUP_TARGET", str(elsewhere))
    monkeypatch.setenv("FOREBAY_BACKUP_INTERVAL_S", "60")

    copied = restored(target, client, "orders", tmp_path)

    assert sum(one.records for one in copied.partitions) == 20
    assert not elsewhere.exists()


def test_damage_of_the_backup_is_reported(target: str, client: Client, tmp_path: Path) -> None:
    damaged = Path(copytree(target, tmp_path / "damaged"))
    [piece, *_] = (one for one in find(open_target(str(damaged)), "").pieces if one.path.endswith(".sst"))
    (damaged / piece.name).unlink()
    opened = open_target(str(damaged))

    copied = restore_sink(
        opened, find(opened, ""), client, sink="orders", restored_as="again", on_damage=OnDamage.SKIP, work_dir=None
    )

    assert copied.damaged == (f"{piece.path} is missing",)


def test_a_copy_that_fails_leaves_no_sink(
    target: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise BrokerUnavailable("away")

    monkeypatch.setattr(single_sink, "_copied_partition", fail)

    with pytest.raises(BrokerUnavailable):
        restored(target, client, "orders", tmp_path)

    assert client.sinks.list() == []


def test_a_sink_that_exists_is_left_as_it_is(target: str, client: Client, tmp_path: Path) -> None:
    client.sinks.create("again")

    with failure(Reason.SINK_EXISTS):
        restored(target, client, "orders", tmp_path)

    assert client.sinks.stats("again").records == 0
