"""One campaign of kills: sinks for all cells of the matrix, those who work with them, and one broker after another."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from forebay.client import Client, ForebayError, RetryPolicy, SinkStats
from tests.support.campaigns import operators, rejecting
from tests.support.campaigns.consumers import ConsumerThread, Temper
from tests.support.campaigns.matrix import SOUGHT, Cell, cells
from tests.support.campaigns.publishers import HABITS, PATIENT, SETTINGS, Connect, PublisherThread
from tests.support.campaigns.rejecting import RejectingConsumer
from tests.support.campaigns.replaying import replay
from tests.support.campaigns.report import Report, total
from tests.support.campaigns.rounds import Round, next_round
from tests.support.campaigns.successors import Restarts, Serving, Shard, Successors
from tests.support.clients.bridge import Loop
from tests.support.oracles.oracle import DEFAULT, Oracle
from tests.support.processes.broker import BrokerEnded, Launcher, free_port

FIRST_PACE: Final = 4.0
OTHERS_PACE: Final = 60.0
"""Factor by which publishers are slowed, because they share the machine."""

LOOKED_AT: Final = 0.4
"""Of the lives that are long enough."""
LOOKS: Final = 4
"""Cells that are checked, and purged or sought at random, in one life of a broker."""
PURGE: Final = 0.1
SEEK: Final = 0.5
"""Per cell that is operated."""
REDRIVE: Final = 0.3
"""Per life in which cells are checked."""
DRAIN_S: Final = 120.0
"""Limit without a record settled or reported, with no kills; a busy machine takes longer to drain all."""
JOIN_S: Final = 600.0
CALM_DEADLINE_S: Final = 30.0
"""Time from which no consumer is delayed on purpose."""
BRIEF: Final = replace(SETTINGS, retry=RetryPolicy(tries_max=1))
"""For what is not to wait until a broker that was killed is back."""

PROGRESS_S: Final = 10.0
LEVELS: Final = (" ERROR ", " CRITICAL ")
"""Levels of errors in a log."""


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a campaign."""

    kills: int
    seed: int
    directory: Path
    say: Callable[[str], None] = lambda _: None
    asyncio: bool = False
    """Publishers and consumers use the asyncio client."""

    journal: str = ""
    """Address of the journal of a shard, whose follower serves after each kill; empty for one broker alone."""

    cells: tuple[str, ...] = ()
    """Names of the cells of the matrix; empty for all."""

    pace: float = 1.0
    """Factor by which all publishers are slowed."""


class Campaign:
    """One run. Made and used on one thread; publishers and consumers have their own."""

    def __init__(self, options: Options, launcher: Launcher) -> None:
        self._options = options
        self._chance = random.Random(options.seed)
        self._endpoint, self._brokers = self._place(launcher)
        self._cells = {cell.name: cell for cell in cells() if not options.cells or cell.name in options.cells}
        self._first = next(iter(self._cells))
        self._oracles = {
            cell.name: Oracle(
                cell.name,
                cell.partitions,
                may_drop=cell.reasons,
                in_order=cell.in_order,
                sought=(SOUGHT,),
                may_lose_counts=bool(options.journal),
            )
            for cell in self._cells.values()
        }
        self._stop_publishing = threading.Event()
        self._stop_consuming = threading.Event()
        self._calm = threading.Event()
        self._loop = Loop() if options.asyncio else None
        self._clients = {name: self._client() for name in self._cells if name != self._first}
        """By cell; each user of the first has its own client: many connections to restore after a kill."""
        sources = count(1)
        self._publishers = [
            PublisherThread(
                habit,
                self._endpoint,
                self._oracles[cell.name],
                partitions=cell.partitions,
                sources=sources,
                chance=random.Random(self._chance.random()),
                stop=self._stop_publishing,
                pace=lambda pace=FIRST_PACE if cell.name == self._first else OTHERS_PACE: pace * options.pace,  # type: ignore[misc]
                connect=self._connect(cell),
            )
            for cell in self._cells.values()
            for habit in (HABITS if cell.name == self._first else self._chance.sample(HABITS[:3], k=2))
        ]
        self._places = rejecting.Places()
        self._publishers.append(
            PublisherThread(
                HABITS[0],
                self._endpoint,
                self._places,
                partitions=rejecting.PARTITIONS,
                sources=sources,
                chance=random.Random(self._chance.random()),
                stop=self._stop_publishing,
                pace=lambda: OTHERS_PACE * options.pace,
            )
        )
        chance = random.Random(self._chance.random())
        self._rejecting = RejectingConsumer(self._endpoint, self._places, chance, self._stop_consuming, self._calm)
        self._dead_letters: dict[str, int] = {}
        self._consumers = [
            self._consumer(cell, number, subscription)
            for cell in self._cells.values()
            for number, subscription in enumerate((DEFAULT, *([DEFAULT] if cell.name == self._first else []), SOUGHT))
        ]
        self._kills = self._stops = 0
        self._kills_while_starting = 0
        self._purges = self._seeks = 0
        self._dropped: dict[str, int] = {}
        self._began = time.monotonic()
        self._said = self._began

    def _place(self, launcher: Launcher) -> tuple[str, Successors]:
        """Return the endpoint for clients, and the brokers behind it."""
        endpoint, options = f"127.0.0.1:{free_port()}", self._options
        if not options.journal:
            return endpoint, Restarts(launcher, options.directory, endpoint)
        chance = random.Random(self._chance.random())
        return endpoint, Shard(launcher, options.directory, endpoint, options.journal, chance)

    def run(self) -> Report:
        """Run it to its end."""
        self._options.say(f"seed {self._options.seed}, {self._options.kills} kills, broker on {self._endpoint}")
        broker = self._brokers.start()
        broker.ready()
        self._make_sinks()
        for thread in (*self._publishers, *self._consumers, self._rejecting):
            thread.start()
        try:
            broker = self._work(broker)
            broker.ready()
            self._finish()
            self._stop(broker)
            self._look_again()
        finally:
            self._stop_publishing.set()
            self._stop_consuming.set()
            broker.kill()
            self._brokers.end()
        self._close_clients()
        return self._report()

    def _work(self, broker: Serving) -> Serving:
        """Kill one broker after another; returns the last one."""
        while self._kills < self._options.kills:
            self._round(broker, next_round(self._chance))
            broker = self._brokers.start()
        return broker

    def _close_clients(self) -> None:
        """Close the shared clients, unless one still flushes: without a broker that would last for ever.

        After an error nothing is closed either. All threads of clients and witnesses end with the process.
        """
        if any(thread.is_alive() for thread in (*self._publishers, *self._consumers)):
            return
        for client in self._clients.values():
            with suppress(ForebayError):
                client.close()

    def _consumer(self, cell: Cell, number: int, subscription: str) -> ConsumerThread:
        """Consumers of sinks that drop the oldest records are slow; those of the first accept most."""
        if "OVERFLOW" in cell.reasons:
            temper = Temper(credit_records=300, pause_s=0.05)
        else:
            temper = Temper() if cell.name == self._first else Temper(credit_records=1_000)
        return ConsumerThread(
            f"{number}",
            self._endpoint,
            self._oracles[cell.name],
            temper,
            hold_s=cell.hold_s,
            chance=random.Random(self._chance.random()),
            stop=self._stop_consuming,
            calm=self._calm,
            subscription=subscription,
            connect=self._connect(cell),
        )

    def _connect(self, cell: Cell) -> Connect | None:
        client = self._clients.get(cell.name)
        return self._client if client is None else lambda: nullcontext(client)

    def _client(self) -> Client:
        """Return a client of a publisher or consumer."""
        if self._loop is not None:
            return self._loop.client(self._endpoint, SETTINGS)
        return Client(self._endpoint, settings=SETTINGS)

    def _make_sinks(self) -> None:
        with Client(self._endpoint, settings=SETTINGS) as client:
            for cell in self._cells.values():
                client.sinks.create(cell.name, **cell.settings)
                client.subscriptions.create(cell.name, SOUGHT)
            rejecting.make(client)

    def _round(self, broker: Serving, plan: Round) -> None:
        """Let a broker live and kill it."""
        try:
            is_ready = broker.wait_ready(plan.life_s if plan.while_starting else 30.0) is not None
            if not plan.while_starting:
                if not is_ready:
                    self._oracles[self._first].fault("faults", "the broker was not ready within 30 s")
                until = time.monotonic() + plan.life_s
                if plan.life_s > 0.05 and self._chance.random() < LOOKED_AT:
                    self._look(replays=plan.replays)
                self._stop_consuming.wait(max(0.0, until - time.monotonic()))
            if is_ready and broker.has_ended():
                raise BrokerEnded(f"the broker ended with {broker.wait()} by itself")
        except BrokerEnded as error:
            self._oracles[self._first].fault("faults", str(error))
            return
        if plan.ending == "stop":
            self._stop(broker)
            self._stops += 1
            return
        if plan.ending == "kill while stopping":
            broker.ask_to_stop()
            self._stop_consuming.wait(plan.grace_s)
        code = broker.kill()
        self._stops += code == 0
        self._kills += code != 0
        self._kills_while_starting += not is_ready
        self._say_progress()

    def _stop(self, broker: Serving) -> None:
        if (code := broker.terminate()) != 0:
            self._oracles[self._first].fault("faults", f"the broker ended with {code} when it was asked to stop")

    def _say_progress(self) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            found = sum(sum(oracle.violations.values()) for oracle in (*self._oracles.values(), self._places))
            sent = sum(publisher.sent for publisher in self._publishers)
            self._options.say(
                f"{now - self._began:5.0f} s  {self._kills} kills  {sent} records sent  {found} violations"
            )

    def _look(self, *, replays: bool) -> None:
        """Compare some cells with what the broker says, and operate them."""
        looked_at = self._chance.sample(list(self._cells), k=min(LOOKS, len(self._cells)))
        self._check(looked_at, replays=replays)
        self._operate(looked_at)

    def _operate(self, names: Iterable[str]) -> None:
        """Purge and seek here and there; a kill may come at any moment."""
        with Client(self._endpoint, settings=BRIEF) as client:
            if self._chance.random() < REDRIVE:
                rejecting.redrive(client, self._places)
            for name in names:
                partition = self._chance.randrange(self._cells[name].partitions)
                if self._chance.random() < PURGE:
                    self._purges += operators.purge(client, self._oracles[name], partition, self._chance) > 0
                if self._chance.random() < SEEK:
                    self._seeks += operators.seek(client, self._oracles[name], partition, SOUGHT, self._chance)

    # -- looking at the broker

    def _check(self, names: Iterable[str], *, replays: bool, all_told: bool = False) -> dict[str, SinkStats]:
        """Ask the broker what it has, and compare."""
        found: dict[str, SinkStats] = {}
        with Client(self._endpoint, settings=PATIENT) as client:
            for name in names:
                oracle = self._oracles[name]
                promised = oracle.promises()
                found[name] = stats = client.sinks.stats(name)
                oracle.check(stats, promised, all_told=all_told)
                if replays:
                    partition = self._chance.randrange(self._cells[name].partitions)
                    replay(client, oracle, partition, promised[partition].end, self._chance)
        return found

    # -- the end

    def _finish(self) -> None:
        """Let publishers finish and consumers catch up, then compare everything."""
        with Client(self._endpoint, settings=PATIENT) as client:
            rejecting.await_rejection(client, self._places)
        self._stop_publishing.set()
        for publisher in self._publishers:
            publisher.join(JOIN_S)
            if publisher.is_alive():
                self._oracles[self._first].fault("faults", f"{publisher.name} did not finish within {JOIN_S:g} s")
        self._calm.set()
        with Client(self._endpoint, settings=PATIENT) as client:
            for name in (*self._cells, rejecting.SINK):
                client.sinks.update(name, ack_deadline_s=CALM_DEADLINE_S)
        self._drain()
        self._stop_consuming.set()
        for consumer in (*self._consumers, self._rejecting):
            consumer.join(JOIN_S)
            if consumer.is_alive():
                self._oracles[self._first].fault("faults", f"{consumer.name} did not end within {JOIN_S:g} s")

    def _drain(self) -> None:
        """Wait until all is settled and reported, or until a consumer has ended, which is a fault already."""
        with Client(self._endpoint, settings=PATIENT) as client:
            for name, oracle in self._oracles.items():
                known, until = (-1, -1), 0.0
                while (left := self._left(client, name)) != (0, 0) and all(one.is_alive() for one in self._consumers):
                    now = time.monotonic()
                    if left != known:
                        known, until = left, now + DRAIN_S
                    elif now > until:
                        what = f"{left[0]} records are pending, {left[1]} untold, and nothing came in {DRAIN_S:g} s"
                        oracle.fault("faults", f"{what} without a kill: {client.sinks.stats(name)}")
                        break
                    self._stop_consuming.wait(0.1)
            self._dead_letters = rejecting.finish(client, self._places)

    def _left(self, client: Client, name: str) -> tuple[int, int]:
        """Numbers of records that are pending, and of those neither delivered nor reported as a gap."""
        stats = client.sinks.stats(name)
        return sum(stats.pending(one.name) for one in stats.subscriptions), self._oracles[name].untold(stats)

    def _look_again(self) -> None:
        """After a clean stop everything is as it was."""
        with self._brokers.start() as broker:
            broker.ready()
            found = self._check(self._cells, replays=True, all_told=True)
            for name, stats in found.items():
                self._dropped[name] = self._oracles[name].check_drops(stats)
                if left := sum(stats.pending(one.name) for one in stats.subscriptions):
                    again = f"{left} records are pending again after a clean stop"
                    self._oracles[name].fault("acks_forgotten", again)
            self._stop(broker)

    def _read_log(self, log: Path) -> None:
        """An error in the broker's log is a fault, because everything here is expected."""
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        for line in self._unexpected(lines):
            self._oracles[self._first].fault("faults", f"the broker logged {line}")

    def _unexpected(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the errors of a log that no fault of this campaign explains."""
        yield from (line for line in lines if any(level in line for level in LEVELS))

    def _report(self) -> Report:
        for log in self._brokers.logs:
            self._read_log(log)
        by_cell = {name: oracle.close() for name, oracle in self._oracles.items()}
        totals = list(by_cell.values())
        everything = [*self._oracles.values(), self._places]
        for oracle in everything:
            for story in oracle.stories:
                self._options.say(story)
        return Report(
            kills=self._kills,
            kills_while_starting=self._kills_while_starting,
            stops=self._stops,
            **total(oracle.violations for oracle in everything),
            acknowledged=sum(found["acknowledged"] for found in totals),
            delivered=sum(found["delivered"] for found in totals),
            redelivered=sum(found["redelivered"] for found in totals),
            dropped=sum(self._dropped.values()),
            gaps=sum(found["gaps"] for found in totals),
            given_up=sum(publisher.given_up for publisher in self._publishers),
            purges=self._purges,
            seeks=self._seeks,
            dead_letters=self._dead_letters,
            shard=self._brokers.figures(),
            cells={
                name: {
                    **found,
                    "dropped": self._dropped.get(name, 0),
                    "violations": sum(self._oracles[name].violations.values()),
                }
                for name, found in by_cell.items()
            },
            elapsed_s=round(time.monotonic() - self._began, 1),
            seed=self._options.seed,
        )
