"""One soak: sinks, load, samples, and an end at which all is settled and the disk space is reclaimed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from forebay.client import Client, ForebayError
from tests.bench.processes import Child, child
from tests.soak import samples
from tests.soak.mix import Plan, plan
from tests.soak.outages import Target
from tests.soak.report import DISK_MAX, Report
from tests.soak.samples import MIB, Sample
from tests.support.campaigns import operators
from tests.support.campaigns.consumers import ConsumerThread
from tests.support.campaigns.publishers import PATIENT, SETTINGS, Connect, PublisherThread
from tests.support.campaigns.report import total
from tests.support.oracles.oracle import DEFAULT, Oracle
from tests.support.processes.broker import BrokerProcess, free_port, serve_command

SAMPLE_S: Final = 5.0
CLIENTS: Final = 6
OWN: Final = 0.05
"""Part of publishers and consumers that have a connection to themselves."""

PROCESSORS_MAX: Final = 0.55
"""Parts of one processor above which publishers slow down: something of a small machine is left for others."""

PACE_MAX: Final = 50.0
OPERATE_S: Final = (1.0, 4.0)
"""Between two things that an operator does."""

DRAIN_S: Final = 300.0
RECLAIM_S: Final = 120.0
"""Time limit for the reclaim of released space."""

PROGRESS_S: Final = 60.0
STORIES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a soak."""

    minutes: float
    sinks: int
    seed: int
    directory: Path
    say: Callable[[str], None] = lambda _: None


class Soak:
    """One run. Made and used on one thread; publishers and consumers have their own."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._chance = random.Random(options.seed)
        self._endpoint = f"127.0.0.1:{free_port()}"
        self._plans = [plan(number, self._chance) for number in range(options.sinks)]
        self._oracles = {
            one.name: Oracle(
                one.name,
                one.options["partitions"],
                may_drop=one.reasons,
                in_order=one.options.get("ordering") != "RELAXED",
                sought=one.subscriptions,
            )
            for one in self._plans
        }
        self._stop_publishing = threading.Event()
        self._stop_consuming = threading.Event()
        self._calm = threading.Event()
        self._pace = 1.0
        self._clients = [Client(self._endpoint, settings=SETTINGS) for _ in range(CLIENTS)]
        """Shared: hundreds of connections of one process cost it more than all that is sent over them."""
        sources = count(1)
        self._publishers = [self._publisher(one, sources) for one in self._plans]
        self._targets: list[Target] = []
        self._consumers = [self._consumer(one, name) for one in self._plans for name in (DEFAULT, *one.subscriptions)]
        self._samples: list[Sample] = []
        self._answers_ms: list[float] = []
        """Measurements of the probe since the last sample."""
        self._spent = (time.monotonic(), time.process_time())
        self._told = 0
        """Number of violation descriptions that were printed already."""
        self._purges = self._purged = self._seeks = 0
        self._dropped = 0
        self._began = self._load_began = time.monotonic()

    def _publisher(self, one: Plan, sources: count[int]) -> PublisherThread:
        return PublisherThread(
            one.habit,
            self._endpoint,
            self._oracles[one.name],
            partitions=one.options["partitions"],
            sources=sources,
            chance=random.Random(self._chance.random()),
            stop=self._stop_publishing,
            pace=lambda: self._pace,
            connect=self._connect(),
        )

    def _connect(self) -> Connect:
        """Some have connections of their own, which break with them; the others share a few."""
        if self._chance.random() < OWN:
            return lambda: Client(self._endpoint, settings=SETTINGS)
        client = self._chance.choice(self._clients)
        return lambda: nullcontext(client)

    def _consumer(self, one: Plan, subscription: str) -> ConsumerThread:
        load_s = self._options.minutes * 60
        target = Target(
            random.Random(self._chance.random()),
            self._calm,
            works_s=min(120.0, load_s / 3),
            fails_s=min(self._chance.choice([5.0, 20.0, 60.0]), load_s / 6),
        )
        self._targets.append(target)
        return ConsumerThread(
            str(len(self._targets)),
            self._endpoint,
            self._oracles[one.name],
            one.temper,
            hold_s=one.options["ack_deadline_s"] * 1.5,
            chance=random.Random(self._chance.random()),
            stop=self._stop_consuming,
            calm=self._calm,
            subscription=subscription,
            outage=target,
            connect=self._connect(),
        )

    def run(self) -> Report:
        """Run it to its end."""
        say, options = self._options.say, self._options
        say(f"seed {options.seed}, {options.sinks} sinks, {options.minutes:g} minutes, broker on {self._endpoint}")
        store = options.directory / "store"
        broker = self._start(store)
        try:
            with Client(self._endpoint, settings=PATIENT) as client:
                self._make_sinks(client)
                self._empty_bytes = samples.on_disk(store)[1]
                with child("tests.soak.probe", self._endpoint, log=options.directory / "probe.log") as probe:
                    threading.Thread(target=self._listen, args=(probe,), name="probe", daemon=True).start()
                    self._load(client, broker, store)
                self._finish(client)
                self._reclaim(client, broker, store)
            self._end(broker)
            self._look_again(store)
        finally:
            self._stop_publishing.set()
            self._calm.set()
            self._stop_consuming.set()
            broker.kill()
            for client in self._clients:
                with suppress(ForebayError):  # after a failure publishers may not be done
                    client.close()
        return self._report(broker.log)

    def _start(self, store: Path) -> BrokerProcess:
        broker = serve_command(store, self._endpoint)
        broker.ready()
        return broker

    def _listen(self, probe: Child) -> None:
        """Take in what the probe tells, until it is ended."""
        with suppress(RuntimeError):
            while True:
                self._answers_ms += probe.report()["answers_ms"]

    def _make_sinks(self, client: Client) -> None:
        for one in self._plans:
            client.sinks.create(one.name, **one.settings)
            for name in one.subscriptions:
                client.subscriptions.create(one.name, name)

    # -- under load

    def _load(self, client: Client, broker: BrokerProcess, store: Path) -> None:
        for thread in (*self._consumers, *self._publishers):
            thread.start()
            self._calm.wait(0.01)  # not all at once: what is measured is not how many can connect in a second
        self._load_began = time.monotonic()
        end_s = self._options.minutes * 60
        sample_s = min(SAMPLE_S, end_s / 8)
        operate_at = said_at = 0.0
        while (now_s := self._now_s()) < end_s:
            if now_s >= operate_at:
                self._operate(client)
                operate_at = now_s + self._chance.uniform(*OPERATE_S) * min(1.0, 200 / len(self._plans) / 5)
            if not self._samples or now_s - self._samples[-1].at_s >= sample_s:
                self._sample(broker, store)
                self._govern()
                self._check_some(client)
            if now_s - said_at >= PROGRESS_S:
                said_at = now_s
                self._say_progress()
            if broker.has_ended():
                self._fault(f"the broker ended with {broker.wait()} by itself")
                break
            self._calm.wait(0.2)
        self._load_samples = list(self._samples)
        self._say_progress()

    def _now_s(self) -> float:
        return time.monotonic() - self._load_began

    def _sample(self, broker: BrokerProcess, store: Path) -> None:
        taken, self._answers_ms = self._answers_ms, []
        self._samples.append(samples.take(broker.pid, store, self._now_s(), taken))

    def _govern(self) -> None:
        """Slow publishers down while broker or soak exceed their processor share; restore the pace afterwards."""
        used = max(samples.load_of(self._samples[-3:]), self._own_load())
        if used > PROCESSORS_MAX:
            self._pace = min(PACE_MAX, self._pace * 1.15)
        elif used < PROCESSORS_MAX * 0.85:
            self._pace = max(1.0, self._pace / 1.05)

    def _own_load(self) -> float:
        """Parts of a processor that this process used since this was asked last: too slow consumers are no outage."""
        before, self._spent = self._spent, (time.monotonic(), time.process_time())
        return (self._spent[1] - before[1]) / max(0.001, self._spent[0] - before[0])

    def _operate(self, client: Client) -> None:
        one = self._chance.choice(self._plans)
        oracle, partition = self._oracles[one.name], self._chance.randrange(one.options["partitions"])
        if one.subscriptions:
            self._seeks += operators.seek(client, oracle, partition, one.subscriptions[0], self._chance)
        elif self._chance.random() < 0.5:
            self._purges += 1
            self._purged += operators.purge(client, oracle, partition, self._chance)

    def _check_some(self, client: Client) -> None:
        for one in self._chance.sample(self._plans, k=min(10, len(self._plans))):
            oracle = self._oracles[one.name]
            promised = oracle.promises()
            oracle.check(client.sinks.stats(one.name), promised)

    def _say_progress(self) -> None:
        if not self._samples:
            return
        stories = [story for oracle in self._oracles.values() for story in oracle.stories]
        if len(stories) > self._told:
            self._told = len(stories)
            self._options.say("\n".join(stories[:STORIES_MAX]))
        last = self._samples[-1]
        used = samples.load_of(self._samples[-13:])
        self._options.say(
            f"{last.at_s:6.0f} s  private {last.private_bytes / MIB:6.1f}  resident {last.resident_bytes / MIB:6.1f}  "
            f"disk {last.disk_bytes / MIB:7.1f} + {last.log_bytes / MIB:.0f} MiB  files {last.open_files}  "
            f"processor {used:.2f}  pace {self._pace:.1f}  answers {samples.answers(self._samples[-13:])}  "
            f"sent {sum(one.sent for one in self._publishers)}  violations {sum(self._violations().values())}"
        )

    # -- the end

    def _finish(self, client: Client) -> None:
        """Let publishers finish and consumers catch up."""
        self._options.say("publishers finish")
        self._stop_publishing.set()
        self._calm.set()
        for publisher in self._publishers:
            publisher.join(DRAIN_S)
            if publisher.is_alive():
                self._fault(f"{publisher.name} did not finish within {DRAIN_S:g} s")
        self._options.say("consumers catch up")
        until, said = time.monotonic() + DRAIN_S, time.monotonic()
        waiting = {one.name: "nobody has looked" for one in self._plans}
        while waiting and time.monotonic() < until:
            for name in list(waiting):
                oracle, stats = self._oracles[name], client.sinks.stats(name)
                pending = sum(stats.pending(found.name) for found in stats.subscriptions)
                untold = oracle.untold(stats)
                waiting[name] = f"{pending} pending, {untold} untold"
                if pending == 0 and untold == 0:
                    del waiting[name]
            if time.monotonic() - said > PROGRESS_S / 4:
                said = time.monotonic()
                self._options.say(f"{len(waiting)} sinks are not done: {dict(list(waiting.items())[:5])}")
            self._stop_consuming.wait(0.5)
        for name, left in waiting.items():
            self._oracles[name].fault("faults", f"{left} after {DRAIN_S:g} s: {client.sinks.stats(name)}")
        self._stop_consuming.set()
        for consumer in self._consumers:
            consumer.join(DRAIN_S)
            if consumer.is_alive():
                self._fault(f"{consumer.name} did not end within {DRAIN_S:g} s")

    def _reclaim(self, client: Client, broker: BrokerProcess, store: Path) -> None:
        """Keep nothing any more, and wait until the disk says so."""
        for one in self._plans:
            client.sinks.update(one.name, retain_acked_bytes=0, retain_acked_time_s=0.0)
        until = time.monotonic() + RECLAIM_S
        while True:
            self._sample(broker, store)
            stored = sum(client.sinks.stats(one.name).records for one in self._plans)
            if stored == 0 and self._disk_left() <= DISK_MAX:
                break
            if time.monotonic() > until:
                if stored:
                    self._fault(f"{stored} records are stored, and all were settled {RECLAIM_S:g} s ago")
                break
            time.sleep(1.0)  # no notification reports that space was reclaimed
        for one in self._plans:
            oracle = self._oracles[one.name]
            stats = client.sinks.stats(one.name)
            oracle.check(stats, oracle.promises(), all_told=True)
            self._dropped += oracle.check_drops(stats)

    def _end(self, broker: BrokerProcess) -> None:
        if (code := broker.terminate(60.0)) != 0:
            self._fault(f"the broker ended with {code} when it was asked to stop")

    def _look_again(self, store: Path) -> None:
        """After a clean stop everything is as it was."""
        with self._start(store) as broker, Client(self._endpoint, settings=PATIENT) as client:
            for one in self._plans:
                if one.options.get("buffer_mode") == "MEMORY":
                    continue  # gone with the process
                oracle = self._oracles[one.name]
                stats = client.sinks.stats(one.name)
                oracle.check(stats, oracle.promises(), all_told=True)
                if left := sum(stats.pending(found.name) for found in stats.subscriptions):
                    oracle.fault("acks_forgotten", f"{left} records are pending again after a clean stop")
            self._end(broker)

    # -- what was found

    def _disk_left(self) -> float:
        """Size that is left, relative to that under load, both above the empty store and without the log."""
        peak = max(one.disk_bytes for one in self._samples)
        return max(0, self._samples[-1].disk_bytes - self._empty_bytes) / max(1, peak - self._empty_bytes)

    def _fault(self, story: str) -> None:
        self._oracles[self._plans[0].name].fault("faults", story)

    def _violations(self) -> dict[str, int]:
        return total(oracle.violations for oracle in self._oracles.values())

    def _report(self, log: Path) -> Report:
        for line in log.read_text(errors="replace").splitlines():
            if any(level in line for level in (" ERROR ", " CRITICAL ")):
                self._fault(f"the broker logged {line}")
        totals = [oracle.close() for oracle in self._oracles.values()]
        for oracle in self._oracles.values():
            for story in oracle.stories:
                self._options.say(story)
        loaded, end_s = self._load_samples, self._options.minutes * 60
        last, final = loaded[-1], self._samples[-1]
        return Report(
            minutes=self._options.minutes,
            sinks=self._options.sinks,
            seed=self._options.seed,
            broker_processors=round(samples.load_of(loaded), 3),
            memory_private_mib={
                "first": _mib(loaded[0].private_bytes),
                "load_end": _mib(last.private_bytes),
                "peak": _mib(max(one.private_bytes for one in loaded)),
                "end": _mib(final.private_bytes),
            },
            memory_resident_mib={
                "load_end": _mib(last.resident_bytes),
                "peak": _mib(max(one.resident_bytes for one in loaded)),
                "end": _mib(final.resident_bytes),
            },
            memory_growth=round(samples.growth(loaded, end_s), 4),
            disk_mib={
                "empty": _mib(self._empty_bytes),
                "peak": _mib(max(one.disk_bytes for one in self._samples)),
                "end": _mib(final.disk_bytes),
                "log_peak": _mib(max(one.log_bytes for one in self._samples)),
                "log_end": _mib(final.log_bytes),
            },
            disk_left=round(self._disk_left(), 4),
            open_files={"peak": max(one.open_files for one in loaded), "end": final.open_files},
            answers_ms=samples.answers(loaded),
            acknowledged=sum(found["acknowledged"] for found in totals),
            delivered=sum(found["delivered"] for found in totals),
            redelivered=sum(found["redelivered"] for found in totals),
            dropped=self._dropped,
            outages=sum(one.outages for one in self._targets),
            refused=sum(one.refused for one in self._targets),
            purges=self._purges,
            purged=self._purged,
            seeks=self._seeks,
            violations=self._violations(),
            elapsed_s=round(time.monotonic() - self._began, 1),
        )


def _mib(size: int) -> float:
    return round(size / MIB, 1)


def run(options: Options) -> Report:
    """Run a soak."""
    return Soak(options).run()
