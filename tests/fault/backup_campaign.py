"""Backs a broker up at random moments under load, kills it or the backup now and then, and restores each backup.

    python -m tests.fault.backup_campaign --trials 100 [--seed N] [--folder DIR] [--target s3]

A writer commits epochs into two sinks, and publishers append small and large records to a third and a fourth, whose
consumer acknowledges four of five and rejects the rest. Each trial begins one backup and lets it end, or kills the
broker, or ends the call, or kills the command. What is complete then is restored, while the load rests:

- `verify` finds nothing, before the state is marked as restored, and all accounts balance
- every stored page has exactly one name, and every name its page
- both sinks have the same epochs, each as a whole, and at least those that were committed before the backup began
- what was acknowledged before the backup began is there once, and nothing is there that was not sent
- what was settled and dead-lettered before the backup began is so still, and the account of each subscription balances

What is not complete is listed as incomplete and refused. With ``--target s3`` the backups go to a MinIO, which is
killed in mid upload now and then: that backup fails with the target's name, or is complete all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.broker.storage.backup.catalog import find, list_backups, prune
from forebay.broker.storage.backup.errors import BackupNotFound
from forebay.broker.storage.backup.manifest import Manifest
from forebay.broker.storage.backup.restores.restore import OnDamage, restore, verify_backup
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.client import (
    Backup,
    BrokerUnavailable,
    Client,
    ClientSettings,
    ForebayError,
    Gap,
    Record,
    RetryPolicy,
    Sink,
    SinkNotFound,
    Subscriber,
)
from tests.support.campaigns.epoch_writer import PARTITIONS, SINKS, EpochWriter, values_of_epoch
from tests.support.pages.named_pages import wrong_names
from tests.support.processes.broker import BrokerProcess, Launcher, free_port
from tests.support.storage.disk_directory import SMALL_STORE
from tests.support.stores.server import StoreServer

PLAIN: Final = "plain"
DRAINED: Final = "drained"
DRAINED_PAUSE_S: Final = 0.01
"""Between two records of that sink: each restore reads all of its dead letters."""
REJECTED_EVERY: Final = 5
"""Deliveries of which the consumer rejects one."""
LARGE_BYTES: Final = 90_000
"""Of every third record: groups of these go to bulk files."""
DELAY_MAX_S: Final = 0.12
"""Latest moment of a kill after the beginning of a backup into a directory, which takes about as long."""
UPLOAD_DELAY_MAX_S: Final = 0.6
"""The same for a backup into a server of objects."""
TRIALS_OF_A_BROKER: Final = 25
"""Trials after which another broker begins with an empty directory: each restore reads all that is stored."""
PRUNED_EVERY: Final = 10
"""Trials after which old backups are deleted."""
ENDINGS: Final = ("complete", "complete", "complete", "kill broker", "kill broker", "end call", "kill command")
KILL_TARGET: Final = "kill target"
"""One more ending, of backups into a server."""
ONCE: Final = ClientSettings(retry=RetryPolicy(tries_max=1))


@dataclass(slots=True)
class Result:
    """Figures of a campaign."""

    trials: int = 0
    endings: dict[str, int] = field(default_factory=dict)
    complete: int = 0
    incomplete: int = 0
    incremental: int = 0
    records: int = 0
    """Records published and acknowledged."""
    epochs: int = 0
    settled: int = 0
    """Offsets settled when the last backup began."""
    dead_letters: int = 0
    longest_stall_s: float = 0.0
    """Longest time for which a snapshot held back the commits."""
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Add the figures of another broker."""
        for ending, times in other.endings.items():
            self.endings[ending] = self.endings.get(ending, 0) + times
        self.trials += other.trials
        self.complete += other.complete
        self.incomplete += other.incomplete
        self.incremental += other.incremental
        self.records += other.records
        self.epochs += other.epochs
        self.settled += other.settled
        self.dead_letters += other.dead_letters
        self.longest_stall_s = max(self.longest_stall_s, other.longest_stall_s)
        self.wrong += other.wrong


class Publisher:
    """Appends numbered records one call at a time, until it is stopped. It waits while the broker is not reachable."""

    def __init__(self, endpoint: str, sink: str, working: threading.Event, *, pause_s: float = 0.0) -> None:
        """It publishes while ``working`` is set."""
        self._endpoint = endpoint
        self._sink = sink
        self._working = working
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.sent = 0
        self.acked: list[int] = []

    def work(self) -> None:
        """Publish one record after the other."""
        with Client(self._endpoint, settings=ONCE) as client:
            while not self._stopping.wait(self._pause_s):
                self._working.wait()
                number, self.sent = self.sent, self.sent + 1
                with suppress(BrokerUnavailable):
                    client.publish(self._sink, [Record(value_of(number))], partition=0)
                    self.acked.append(number)

    def stop(self) -> None:
        """End after the record that is being published."""
        self._stopping.set()


class Consumer:
    """Acknowledges and rejects what is delivered, until it is stopped. It reconnects by itself."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._stopping = threading.Event()
        self._deliveries: Subscriber | None = None

    def work(self) -> None:
        """Settle one delivery after the other."""
        with Client(self._endpoint) as client, client.subscriber(DRAINED) as deliveries:
            self._deliveries = deliveries
            for number, delivery in enumerate(deliveries):
                if self._stopping.is_set():
                    return
                if number % REJECTED_EVERY:
                    delivery.ack()
                else:
                    delivery.dead_letter("one of five")

    def stop(self) -> None:
        """End, also while it waits for a delivery."""
        self._stopping.set()
        if self._deliveries is not None:
            self._deliveries.close()


@dataclass(frozen=True, slots=True)
class Settled:
    """Durable state of the fourth sink."""

    below: int
    dead_letters: int


def settled(client: Client) -> Settled:
    """Return what is settled."""
    [subscription] = client.sinks.stats(DRAINED).subscriptions
    [partition] = subscription.partitions
    try:
        letters = client.sinks.stats(f"{DRAINED}.dlq").records
    except SinkNotFound:
        letters = 0
    return Settled(partition.watermark, letters)


def value_of(number: int) -> bytes:
    """Value of a record of the third sink."""
    return (b"%d " % number).ljust(LARGE_BYTES if number % 3 == 0 else 20, b"x")


class Campaign:
    """One broker, its load, and its backups."""

    def __init__(self, launcher: Launcher, folder: Path, seed: int, *, server: StoreServer | None = None) -> None:
        """``server`` keeps the backups; without one, a directory does."""
        self._launcher = launcher
        self._folder = folder
        self._chance = random.Random(seed)
        self._listen = f"127.0.0.1:{free_port()}"
        self._server = server
        self._address = str(folder / "target") if server is None else server.url(f"backups-{seed}")
        self._target = open_target(self._address)
        self._working = threading.Event()
        self._working.set()
        self._publisher = Publisher(self._listen, PLAIN, self._working)
        self._drained = Publisher(self._listen, DRAINED, self._working, pause_s=DRAINED_PAUSE_S)
        self._consumer = Consumer(self._listen)
        self._writer = EpochWriter(self._listen, seed, working=self._working)
        self._broker = self._start()
        self.result = Result()

    def _start(self) -> BrokerProcess:
        broker = self._launcher.start(
            self._folder / "data", self._listen, backup_target=self._address, disk_reserve_bytes=0
        )
        broker.ready()
        return broker

    def run(self, trials: int) -> Result:
        """Make the trials."""
        with Client(self._listen) as client:
            for sink in SINKS:
                client.sinks.create(sink, partitions=PARTITIONS)
            client.sinks.create(PLAIN)
            client.sinks.create(DRAINED)
        load = (self._publisher, self._drained, self._consumer, self._writer)
        load_threads = [threading.Thread(target=one.work, daemon=True) for one in load]
        for thread in load_threads:
            thread.start()
        try:
            for number in range(trials):
                self._trial(number)
                print(json.dumps(asdict(self.result)), file=sys.stderr, flush=True)
        finally:
            for one in load:
                one.stop()
            for thread in load_threads:
                thread.join(60)
            self._broker.kill()
        self.result.records, self.result.epochs = len(self._publisher.acked), self._writer.done
        return self.result

    def _trial(self, number: int) -> None:
        ending = self._chance.choice(ENDINGS if self._server is None else (*ENDINGS, KILL_TARGET))
        self.result.trials += 1
        self.result.endings[ending] = self.result.endings.get(ending, 0) + 1
        before = {one.id for one in list_backups(self._target)}
        with Client(self._listen) as client:
            before_it = settled(client)
        self.result.settled, self.result.dead_letters = before_it.below, before_it.dead_letters
        acked, done = len(self._publisher.acked), self._writer.done
        delay_s = self._chance.uniform(0.0, DELAY_MAX_S if self._server is None else UPLOAD_DELAY_MAX_S)
        made: Backup | None = None
        if ending == "kill command":
            self._command(delay_s)
        else:
            made = self._call(ending, delay_s)
        for one in list_backups(self._target):
            if one.id in before:
                continue
            if one.manifest is None:
                self.result.incomplete += 1
                self._check_refused(one.id)
            else:
                self.result.complete += 1
                self.result.incremental += bool(one.manifest.parent)
                with self._load_rests():
                    wrong = self._wrong(one.manifest, acked, done, before_it)
                self.result.wrong += [f"trial {number}, {ending}, {one.id}: {what}" for what in wrong]
        if number % PRUNED_EVERY == PRUNED_EVERY - 1:
            prune(self._target, now_us=time.time_ns() // 1_000, keep_last=2, keep_days=0)
            return
        if made is not None and find(self._target, made.id).id != made.id:
            self.result.wrong.append(f"trial {number}: {made.id} was reported and does not exist")

    @contextmanager
    def _load_rests(self) -> Iterator[None]:
        """Restore without the load: a slow machine would find more to restore each time, without end."""
        self._working.clear()
        try:
            yield
        finally:
            self._working.set()

    def _call(self, ending: str, delay_s: float) -> Backup | None:
        """Make a backup by a call, and end it so."""
        made: list[Backup] = []
        ended = threading.Event()

        def create() -> None:
            with Client(self._listen, settings=ONCE) as client:
                events = client.backups.create(full=self._chance.random() < 0.5)
                try:
                    for event in events:
                        if isinstance(event, Backup):
                            made.append(event)
                        elif ended.is_set():
                            break
                except ForebayError as error:
                    named = ending == KILL_TARGET and self._address.partition("?")[0] in str(error)
                    if ending != "kill broker" and not named:
                        self.result.wrong.append(f"a backup failed: {error}")
                finally:
                    events.close()

        thread = threading.Thread(target=create)
        thread.start()
        if ending == "kill broker":
            time.sleep(delay_s)
            self._broker.kill()
            self._broker = self._start()
        elif ending == "end call":
            time.sleep(delay_s)
            ended.set()
        elif ending == KILL_TARGET:
            assert self._server is not None
            time.sleep(delay_s)
            self._server.kill()
            self._server.start()
        thread.join(120)
        for one in made:
            self.result.longest_stall_s = max(self.result.longest_stall_s, one.stall_s)
        self._wait_until_idle()
        return made[0] if made else None

    def _command(self, delay_s: float) -> None:
        """Make a backup by the command, and kill it once it has begun."""
        before = {one.id for one in list_backups(self._target)}
        command = [sys.executable, "-m", "forebay.cli", "backup", "create", "--endpoint", self._listen]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and {one.id for one in list_backups(self._target)} == before:
                time.sleep(0.01)
            time.sleep(delay_s / 4)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._wait_until_idle()

    def _wait_until_idle(self) -> None:
        with Client(self._listen) as client:
            while client.backups.status().progress is not None:
                time.sleep(0.01)

    def _check_refused(self, backup: str) -> None:
        try:
            find(self._target, backup)
        except BackupNotFound:
            return
        self.result.wrong.append(f"incomplete backup {backup} was found")

    def _wrong(self, manifest: Manifest, acked: int, done: int, before: Settled) -> list[str]:
        """Restore a complete backup, and return what is wrong in it."""
        report = verify_backup(self._target, manifest, work_dir=self._folder)
        wrong = list(report.problems)
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            made = Path(name) / "data"
            restore(
                self._target,
                manifest,
                made,
                on_damage=OnDamage.STOP,
                store_id="7" * 32,
                at_us=time.time_ns() // 1_000,
            )
            store = RocksStore(made, settings=SMALL_STORE)
            try:
                recover(store)
                wrong += wrong_names(store)[:10]
            finally:
                store.close()
            with (
                BrokerServer.on_disk(load(data_dir=made, listen="127.0.0.1:0", disk_ballast_bytes=0)) as server,
                Client(server.endpoint) as client,
            ):
                wrong += self._wrong_records(client, acked, done)
                wrong += _wrong_accounts(client, before)
        return wrong

    def _wrong_records(self, client: Client, acked: int, done: int) -> list[str]:
        found = [int(value.split()[0]) for value in _values(client, PLAIN, 0)]
        wrong: list[str] = []
        missing = set(self._publisher.acked[:acked]) - set(found)
        if missing:
            wrong.append(f"{len(missing)} acknowledged records are missing, the first is {min(missing)}")
        doubled = [number for number, times in Counter(found).items() if times > 1]
        if doubled or found != sorted(found):
            wrong.append(f"records are there twice or out of order: {doubled[:5]}")
        if found and max(found) >= self._publisher.sent:
            wrong.append("a record is there that was not sent")
        counts: set[int] = set()
        for sink in SINKS:
            for partition in range(PARTITIONS):
                values = _values(client, sink, partition)
                per_epoch = len(values_of_epoch(0, partition))
                epochs, rest = divmod(len(values), per_epoch)
                counts.add(epochs)
                wanted = [value for epoch in range(epochs) for value in values_of_epoch(epoch, partition)]
                if rest or values != wanted:
                    wrong.append(f"{sink}/{partition} has {len(values)} records, which are no whole epochs")
        if len(counts) > 1:
            wrong.append(f"the sinks have different numbers of epochs: {counts}")
        if min(counts) < done:
            wrong.append(f"{done} epochs were committed before, {min(counts)} are there")
        return wrong


def _wrong_accounts(client: Client, before: Settled) -> list[str]:
    found = settled(client)
    wrong = [f"the accounts of {one.name} do not balance" for one in client.sinks.list() if not _balances(client, one)]
    if found.below < before.below:
        wrong.append(f"records below {before.below} were settled before, below {found.below} they are")
    if found.dead_letters < before.dead_letters:
        wrong.append(f"there were {before.dead_letters} dead letters before, {found.dead_letters} are there")
    return wrong


def _balances(client: Client, sink: Sink) -> bool:
    return client.sinks.stats(sink.name).identity_ok


def _values(client: Client, sink: str, partition: int) -> list[bytes]:
    with client.replay(sink, partition=partition, start=0, on_gap="yield") as replay:
        return [record.value for record in replay if not isinstance(record, Gap)]


@contextmanager
def s3_server() -> Iterator[StoreServer]:
    """Run a MinIO, whose credentials are in the environment of this process and its children."""
    from tests.support.stores.minio import MinioServer
    from tests.support.stores.objects import running

    with running(MinioServer) as server:
        os.environ.update(server.good)
        yield server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.backup_campaign", description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="directory for data and backups")
    parser.add_argument("--target", choices=("directory", "s3"), default="directory", help="kind of the target")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr)
    result = Result()
    with s3_server() if chosen.target == "s3" else nullcontext() as server:
        for begun in range(0, chosen.trials, TRIALS_OF_A_BROKER):
            with tempfile.TemporaryDirectory(dir=chosen.folder) as name, Launcher() as launcher:
                trials = min(TRIALS_OF_A_BROKER, chosen.trials - begun)
                result.add(Campaign(launcher, Path(name), seed + begun, server=server).run(trials))
    print(json.dumps(asdict(result)))
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
