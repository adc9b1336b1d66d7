"""Kills the parts of an exactly-once Spark query again and again, and reads its sink all the time.

    python -m tests.fault_spark.campaign --kills 200 [--seed N] [--directory D]

A query writes numbered rows from a cluster of two executors into a sink of four partitions. Killed with -9 at random
moments are the broker, executors, the Python workers that write, those that plan and commit, and the driver; each is
started again as its supervisor would. A reader polls the sink through all of it. At the end every row of the source is
there once, and every micro-batch was whole or absent in every look. The last line is a JSON object; exit code 1 says
that something was not so.
"""

from __future__ import annotations

import argparse
import queue
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from forebay.client import Client
from tests.fault_spark.driver import Work
from tests.fault_spark.failures import UNEXPECTED, name_of
from tests.fault_spark.looker import PATIENT, Looker, committed, faults_of_what_is_left
from tests.fault_spark.processes import DriverProcess, Marked
from tests.fault_spark.report import Report
from tests.fault_spark.rounds import Round, Victim, next_round
from tests.support.oracles.spark import judge
from tests.support.processes.broker import BrokerProcess, Launcher, free_port

SINK: Final = "orders"
PARTITIONS: Final = 4
START_S: Final = 300.0
"""A driver has to start a query within this, on a machine that is shared with others."""

PROGRESS_S: Final = 300.0
"""And Spark has to call a micro-batch committed within this, whatever was killed before."""

VICTIM_S: Final = 10.0
"""A process of the kind that a round asks for is waited for so long; then the round kills nothing."""

TICK_S: Final = 0.02
SAY_S: Final = 15.0
CONF: Final = (
    ("spark.deploy.maxExecutorRetries", "-1"),
    ("spark.task.maxFailures", "20"),
    ("spark.cores.max", "2"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a campaign."""

    kills: int
    seed: int
    directory: Path
    master: str = "local-cluster[2,1,1024]"
    victims: tuple[Victim, ...] | None = None
    """Kinds to kill in turn; None draws them."""

    say: Callable[[str], None] = lambda _: None


class Campaign:
    """One run. Made and used on one thread; the reader has its own."""

    def __init__(self, options: Options, launcher: Launcher, marked: Marked) -> None:
        self._options = options
        self._launcher = launcher
        self._marked = marked
        self._chance = random.Random(options.seed)
        self._endpoint = f"127.0.0.1:{free_port()}"
        directory = options.directory
        self._checkpoint = directory / "checkpoint"
        self._work = Work(
            endpoint=self._endpoint,
            checkpoint=str(self._checkpoint),
            folder=str(directory),
            sink=SINK,
            master=options.master,
            pause_ms=10,
            conf=CONF,
        )
        self._looker = Looker(self._endpoint, SINK, PARTITIONS, self._checkpoint, random.Random(self._chance.random()))
        self._kills: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._faults: list[str] = []
        self._began = self._said = time.monotonic()

    def run(self) -> Report:
        """Run it to its end."""
        say = self._options.say
        say(f"seed {self._options.seed}, {self._options.kills} kills, broker on {self._endpoint}")
        broker = self._broker()
        with Client(self._endpoint, settings=PATIENT) as client:
            client.sinks.create(SINK, partitions=PARTITIONS)
        self._looker.start()
        try:
            driver = self._driver(self._work)
            self._progress()
            while self._kills.total() < self._options.kills - 1:
                plan = next_round(self._chance, self._next_victim())
                self._wait(driver, plan)
                match plan.victim:
                    case "broker":
                        self._check_alive(broker)
                        broker.kill()
                        self._kills["broker"] += 1
                        time.sleep(plan.away_s)
                        broker = self._broker()
                    case "driver":
                        driver.kill()
                        self._kills["driver"] += 1
                        driver = self._driver(self._work)
                    case _:
                        self._kills[plan.victim] += self._kill_one(plan)
                self._tell(driver)
            driver.kill()
            self._kills["driver"] += 1
            say("the last micro-batches")
            self._finish()
            self._looker.stop()
            self._check_alive(broker)
            if (code := broker.terminate()) != 0:
                self._fault(f"the broker ended with {code} when it was asked to stop")
            self._look_again()
        except AssertionError as error:
            self._fault(f"the campaign came to no end: {error}")
        finally:
            self._looker.end()
            self._marked.kill_all()
            broker.kill()
        return self._report()

    # -- what is started

    def _broker(self) -> BrokerProcess:
        broker = self._launcher.start(self._options.directory / "store", self._endpoint)
        broker.ready()
        return broker

    def _check_alive(self, broker: BrokerProcess) -> None:
        if broker.has_ended():
            self._fault(f"the broker ended with {broker.wait()} by itself")

    def _driver(self, work: Work) -> DriverProcess:
        driver = DriverProcess(self._marked, work)
        driver.expect("started", START_S)
        return driver

    # -- rounds

    def _next_victim(self) -> Victim | None:
        wanted = self._options.victims
        return None if wanted is None else wanted[self._kills.total() % len(wanted)]

    def _wait(self, driver: DriverProcess, plan: Round) -> None:
        """Let things work until the moment of the kill."""
        if plan.after_progress:
            self._progress()
        time.sleep(plan.life_s)
        self._take_events(driver)

    def _progress(self) -> None:
        """Return when Spark has called one more micro-batch committed."""
        before = committed(self._checkpoint)
        until = time.monotonic() + PROGRESS_S
        while committed(self._checkpoint) == before:
            if time.monotonic() > until:
                raise AssertionError(f"no micro-batch after {before} within {PROGRESS_S:g} s; see {self._work.folder}")
            time.sleep(TICK_S)

    def _kill_one(self, plan: Round) -> int:
        """Kill a process of a kind, once there is one; returns how many that were."""
        until = time.monotonic() + VICTIM_S
        while time.monotonic() < until:
            if plan.victim != "broker" and (found := self._marked.find(plan.victim)):
                return self._marked.kill(self._chance.choice(found))
            time.sleep(TICK_S)
        return 0

    def _take_events(self, driver: DriverProcess) -> None:
        """Count why queries failed; the driver has started them again."""
        while True:
            try:
                event = driver.events.get_nowait()
            except queue.Empty:
                return
            if event.what == "failed":
                name = name_of(event.why)
                self._failures[name] += 1
                if name in UNEXPECTED:
                    self._fault(f"a query failed with {event.why}")
            elif event.what == "gone":
                self._fault("the driver ended by itself")
                raise AssertionError(f"see {driver.log}")

    # -- the end

    def _finish(self) -> None:
        """Run what is unfinished, and one micro-batch more."""
        with DriverProcess(self._marked, replace(self._work, to_the_end=True)) as driver:
            while driver.has_told(START_S + PROGRESS_S):
                event = driver.events.get()
                if event.what == "failed":
                    self._fault(f"a query failed while nothing was killed: {event.why}")
                if event.what in {"ended", "gone"}:
                    break
            if (code := driver.wait(START_S)) != 0:
                self._fault(f"the last driver ended with {code}")

    def _look_again(self) -> None:
        """After a clean stop everything is as it was."""
        broker = self._broker()
        try:
            for fault in faults_of_what_is_left(self._endpoint, SINK, self._looker.rows):
                self._fault(fault)
            if (code := broker.terminate()) != 0:
                self._fault(f"the broker ended with {code} when it was asked to stop")
        finally:
            broker.kill()

    def _fault(self, text: str) -> None:
        self._faults.append(text)
        self._options.say(f"FAULT {text}")

    def _tell(self, driver: DriverProcess) -> None:
        now = time.monotonic()
        if now - self._said < SAY_S:
            return
        self._said = now
        self._options.say(
            f"{now - self._began:5.0f} s  {dict(self._kills)}  micro-batch {committed(self._checkpoint)}  "
            f"{len(self._looker.looks)} looks  {sum(self._failures.values())} queries failed"
        )

    def _report(self) -> Report:
        for fault in self._looker.faults:
            self._fault(fault)
        log = self._options.directory / "store.log"
        for line in log.read_text(errors="replace").splitlines():
            if any(level in line for level in (" ERROR ", " CRITICAL ")):
                self._fault(f"the broker logged {line}")
        batches = committed(self._checkpoint, "offsets") + 1
        verdict = judge(self._looker.rows, batches=batches, batch_rows=self._work.rows, looks=self._looker.looks)
        for name in ("torn", "forgotten"):
            if found := getattr(verdict, name):
                self._options.say(f"{name}: micro-batches {sorted(found)}")
        return Report(
            kills={**self._kills, "all": self._kills.total()},
            rows=batches * self._work.rows,
            lost=verdict.lost,
            doubled=verdict.doubled,
            foreign=verdict.foreign,
            torn_epochs=len(verdict.torn),
            forgotten=len(verdict.forgotten),
            faults=len(self._faults),
            batches=batches,
            looks=len(self._looker.looks),
            query_failures=dict(self._failures),
            elapsed_s=round(time.monotonic() - self._began, 1),
            seed=self._options.seed,
        )


def run(options: Options) -> Report:
    """Run a campaign."""
    with Launcher() as launcher:
        return Campaign(options, launcher, Marked()).run()


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault_spark.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="draws the same rounds again; the rest is chance")
    parser.add_argument("--directory", type=Path, default=None, help="where everything is kept")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="forebay-fault-spark-"))
    directory.mkdir(parents=True, exist_ok=True)
    report = run(Options(given.kills, seed, directory, say=lambda text: print(text, flush=True)))
    if given.directory is None and report.ok:
        shutil.rmtree(directory)
    elif not report.ok:
        print(f"store, checkpoint and logs are in {directory}")
    print(report.line(), flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
