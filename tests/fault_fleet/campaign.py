"""Kills, freezes and partitions of a fleet at work, with an oracle outside of the brokers.

    python -m tests.fault_fleet.campaign --engine directory|minio|kafka --kills K --freezes F --partitions P [--seed N]

Two brokers with one journal serve in turn. Publishers, consumers and a writer of epochs work through their doors, the
witnesses at each broker itself; one publisher writes bulk pages. The faults of ``faults.KINDS`` come in random order, P
partitions of each kind that the engine has. The oracles are those of ``tests.fault.campaign``, over some of its cells.
A table shows each kind of fault; the last line is a JSON object. Exit code 1 says that a receipt was lost, doubled, or
given after a fence, or that another guarantee was broken.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.client import Client
from tests.fault_fleet.faults import ENGINE_ONLY, KINDS, Scene
from tests.fault_fleet.fleet import Fleet, Member
from tests.fault_fleet.journals import ENGINES, Journal, opened
from tests.fault_fleet.large_pages import SINK as LARGE
from tests.fault_fleet.large_pages import LargePages
from tests.fault_fleet.report import END, FleetReport, Row
from tests.fault_fleet.witness import SINK, Witness, history, judge
from tests.support.calls.eventually import values_of
from tests.support.campaigns.epoch_writer import PARTITIONS, SINKS, EpochWriter, values_of_epoch
from tests.support.campaigns.killing import LOOKED_AT, Campaign, Options
from tests.support.campaigns.publishers import PATIENT, SETTINGS
from tests.support.campaigns.report import FATAL, Report
from tests.support.campaigns.successors import Serving, Successors
from tests.support.processes.broker import Launcher
from tests.support.storage.memory_folder import memory_folder

TAKEOVER_S: Final = 3.0
LIFE_S: Final = (0.3, 2.0)
"""Between two faults, at work."""
PROGRESS_S: Final = 120.0
"""Time limit for the next receipt of a publisher behind the doors, and the next epoch, after a fault."""
PACE: Final = 8.0
"""Factor by which publishers are slowed: brokers that take over share the machine with them."""
LAST_EPOCH_S: Final = 120.0
EPOCH_PAUSE_S: Final = 0.2
CELLS: Final = ("reject-strict-disk", "reject-relaxed-disk", "drop-oldest-strict-disk", "reject-strict-spill")
AWAY: Final = "journal does not answer"
FENCED: Final = "store was fenced"
OWNS: Final = "took over a journal"
"""Lines of a log: an engine that is cut off, and the end and the beginning of an ownership."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Number of faults."""

    kills: int
    freezes: int
    partitions: int
    """Of each kind that the engine has."""

    minutes: float = float("inf")
    """Time after which no further fault begins."""

    takeover_after_s: float = TAKEOVER_S
    """Silence of an owner; with less, more faults fit into an hour."""

    def drawn(self, engine: str, chance: random.Random) -> list[str]:
        """Return the kinds of all faults in random order."""
        counts = {"kill": self.kills, "freeze": self.freezes}
        partitions = [
            kind for kind in KINDS if kind not in counts and (engine != "directory" or kind not in ENGINE_ONLY)
        ]
        counts |= dict.fromkeys(partitions, self.partitions)
        kinds = list(Counter(counts).elements())
        chance.shuffle(kinds)
        return kinds


class Epochs(EpochWriter):
    """Writer of epochs with a pause between them."""

    def _write(self, epoch: int) -> None:
        super()._write(epoch)
        self._stopping.wait(EPOCH_PAUSE_S)


class FleetCampaign(Campaign):
    """One run over a fleet."""

    def __init__(self, options: Options, launcher: Launcher, engine: str, journal: Journal, plan: Plan) -> None:
        self._engine, self._journal, self._takeover_after_s = engine, journal, plan.takeover_after_s
        super().__init__(options, launcher)
        self._kinds, self._minutes = plan.drawn(engine, self._chance), plan.minutes
        self.rows = {kind: Row() for kind in KINDS if kind in self._kinds} | {END: Row()}
        self._writer = Epochs(self._endpoint, self._chance.randrange(1 << 32))
        self._writing = threading.Thread(target=self._write, name="epochs", daemon=True)
        self._stop_witnessing = threading.Event()
        self._witnesses = {member.name: Witness(member, self._stop_witnessing) for member in self._fleet.members}
        self._large = LargePages(self._endpoint, self._chance.randrange(1 << 32), self._stop_witnessing)
        self._last_faults: list[tuple[float, str]] = []
        """Begin and kind of each fault."""
        self._answered_late = 0
        self._said_stories: set[str] = set()

    @property
    def epochs(self) -> int:
        """Epochs that were answered as committed."""
        return self._writer.done

    @property
    def large(self) -> tuple[int, int]:
        """Records of bulk pages that were published, and those that were read meanwhile."""
        return self._large.published, self._large.reads

    @property
    def answered_late(self) -> int:
        """See ``FleetReport``."""
        return self._answered_late

    def _place(self, launcher: Launcher) -> tuple[str, Successors]:
        self._fleet = Fleet(
            launcher,
            self._options.directory,
            self._journal,
            random.Random(self._chance.random()),
            lambda story: self._tell("faults", story),
            takeover_after_s=self._takeover_after_s,
        )
        return self._fleet.endpoint, self._fleet

    def _tell(self, kind: str, story: str) -> None:
        self._oracles[self._first].fault(kind, story)

    def _make_sinks(self) -> None:
        super()._make_sinks()
        with Client(self._endpoint, settings=SETTINGS) as client:
            client.sinks.create(SINK)
            client.sinks.create(LARGE)
            for sink in SINKS:
                client.sinks.create(sink, partitions=PARTITIONS)
        for thread in (self._writing, self._large, *self._witnesses.values()):
            thread.start()

    def _write(self) -> None:
        try:
            self._writer.work()
        except Exception as error:  # noqa: BLE001 - whatever ends a witness spoils the evidence
            self._tell("faults", f"the writer of epochs ended with {error!r}")

    # -- faults

    def _work(self, broker: Serving) -> Serving:
        scene = Scene(
            self._fleet,
            self._chance,
            lambda member, life, since_s: self._witnesses[member.name].has_confirmed(life, since_s),
        )
        for number, kind in enumerate(self._kinds, 1):
            if time.monotonic() - self._began > 60 * self._minutes:
                self._options.say(f"{len(self._kinds) - number + 1} faults were left out after {self._minutes:g} min")
                break
            self._fault(scene, kind)
            takeovers, violations = sum(row.takeovers for row in self.rows.values()), self._violations().total()
            self._options.say(
                f"{time.monotonic() - self._began:5.0f} s  {number} of {len(self._kinds)}  {kind}  "
                f"{takeovers} takeovers  {violations} violations"
            )
            self._say_stories()
        return broker

    def _say_stories(self) -> None:
        """Print the violations that are new."""
        stories = [story for oracle in (*self._oracles.values(), self._places) for story in oracle.stories]
        for story in stories:
            if story not in self._said_stories:
                self._said_stories.add(story)
                self._options.say(story)

    def _fault(self, scene: Scene, kind: str) -> None:
        """Bring one fault about, have everything work again, and note what came of it."""
        row = self.rows[kind]
        owner = self._fleet.settle()
        self._last_faults.append((time.monotonic(), kind))
        services, receipts, violations = len(self._fleet.services), self._receipts(), self._violations()
        took_s = KINDS[kind](scene)
        row.faults += 1
        self._kills += kind == "kill"
        if took_s is not None:
            row.beyond_s.append(took_s - self._takeover_after_s)
        self._await_progress(kind, owner)
        self._fleet.watch(self._chance.uniform(*LIFE_S))
        self._fleet.settle()
        if self._chance.random() < LOOKED_AT:
            self._look(replays=self._chance.random() < 0.3)
        row.takeovers += len(self._fleet.services) - services
        row.receipts += self._receipts() - receipts
        _count(row, self._violations() - violations)

    def _await_progress(self, kind: str, before: Member) -> None:
        """Wait for a receipt through the doors, and for an epoch."""
        receipts, epochs = self._receipts_behind_doors(), self._writer.done

        def goes_on() -> bool:
            return self._receipts_behind_doors() > receipts and self._writer.done > epochs

        if not self._fleet.wait(goes_on, PROGRESS_S):
            what = f"{self._receipts_behind_doors() - receipts} records and {self._writer.done - epochs} epochs"
            self._tell("faults", f"{what} within {PROGRESS_S:g} s after {kind!r} of {before.name}")

    def _receipts_behind_doors(self) -> int:
        return sum(publisher.confirmed for publisher in self._publishers)

    def _receipts(self) -> int:
        return self._receipts_behind_doors() + sum(len(witness.confirmed) for witness in self._witnesses.values())

    def _violations(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for oracle in (*self._oracles.values(), self._places):
            found.update(oracle.violations)
        return found

    # -- the end

    def _finish(self) -> None:
        self._writer.stop()
        self._writing.join(LAST_EPOCH_S)
        if self._writing.is_alive():
            self._tell("faults", f"the writer of epochs did not end within {LAST_EPOCH_S:g} s")
        self._stop_witnessing.set()
        witnesses: list[Witness | LargePages] = [*self._witnesses.values(), self._large]
        for witness in witnesses:
            witness.join()
            if witness.failure is not None:
                self._tell("faults", f"{witness.name} ended with {witness.failure!r}")
        super()._finish()
        with Client(self._fleet.endpoint, settings=PATIENT) as client:
            self._compare_witnesses(client)
            self._compare_epochs(client)
            self._large.finish(client)
        for story in self._large.wrong:
            self._tell("lost", f"of large pages: {story}")

    def _compare_witnesses(self, client: Client) -> None:
        confirmed = [one for witness in self._witnesses.values() for one in witness.confirmed]
        verdict = judge(history(client), confirmed, self._fleet.services)
        self._answered_late = verdict.answered_late
        for one in verdict.lost:
            self._tell("lost", f"{one} of a witness is not in the history")
        for value in verdict.doubled:
            self._tell("duplicates", f"{value!r} of a witness stands twice")
        for one in verdict.weak:
            self._tell("faults", f"{one} is not durable")
        for one in verdict.after_fence:
            self._options.say(f"after a fence: {one}")
            kinds = [kind for at_s, kind in self._last_faults if at_s <= one.asked_s]
            self.rows[kinds[-1] if kinds else END].after_fence += 1

    def _compare_epochs(self, client: Client) -> None:
        for sink in SINKS:
            for partition in range(PARTITIONS):
                found = values_of(client, sink, partition)
                expected = [value for epoch in range(self._writer.done) for value in values_of_epoch(epoch, partition)]
                if found != expected:
                    twice = len(found) - len(set(found))
                    missing = len(set(expected) - set(found))
                    story = f"{sink}/{partition}: {missing} rows of epochs are missing, {twice} stand twice"
                    self._tell("duplicates" if twice else "lost", story)

    def _unexpected(self, lines: Iterable[str]) -> Iterator[str]:
        return super()._unexpected(unexplained(lines))

    def _report(self) -> Report:
        """Count what only the whole shows in the last row."""
        report = super()._report()
        found = Counter({kind: getattr(report, kind) for kind in FATAL})
        for row in self.rows.values():
            found.subtract({"lost": row.lost, "duplicates": row.doubled, "faults": row.other})
        _count(self.rows[END], found)
        return report


def unexplained(lines: Iterable[str]) -> Iterator[str]:
    """Leave out of a log an engine that is cut off, and what fails after a fence: all that was under way."""
    was_fenced = False
    for line in lines:
        was_fenced = FENCED in line or (was_fenced and OWNS not in line)
        if not was_fenced and AWAY not in line:
            yield line


def _count(row: Row, found: Counter[str]) -> None:
    row.lost += found["lost"]
    row.doubled += found["duplicates"]
    row.other += sum(count for kind, count in found.items() if kind not in {"lost", "duplicates"})


def run(
    engine: str, plan: Plan, seed: int, directory: Path, say: Callable[[str], None] = lambda _: None
) -> FleetReport:
    """Run a campaign."""
    with opened(engine, directory) as journal, Launcher() as launcher:
        options = Options(plan.kills, seed, directory, say, journal=engine, cells=CELLS, pace=PACE)
        campaign = FleetCampaign(options, launcher, engine, journal, plan)
        report = campaign.run()
        return FleetReport(engine, campaign.rows, campaign.epochs, campaign.answered_late, campaign.large, report)


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault_fleet.campaign", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="directory")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--freezes", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=10, help="of each kind that the engine has")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="leave out the faults after that time")
    parser.add_argument("--takeover-after", type=float, default=TAKEOVER_S, help="silence of an owner in seconds")
    parser.add_argument("--seed", type=int, default=None, help="draws the same faults again; the rest is chance")
    parser.add_argument("--directory", type=Path, default=None, help="where the brokers' stores are; kept")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="forebay-fleet-", dir=memory_folder()))
    directory.mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        print(text, flush=True)

    say(f"engine {given.engine}, seed {seed}, stores in {directory}")
    plan = Plan(given.kills, given.freezes, given.partitions, given.minutes, given.takeover_after)
    report = run(given.engine, plan, seed, directory, say)
    if given.directory is None and report.ok:
        shutil.rmtree(directory)
    say(report.table())
    say(report.line())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
