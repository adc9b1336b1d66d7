"""DemoRun of the demo: start all processes, disturb them, wait for recovery, reconcile.

One thread and one loop: it reads the reports of the children, samples the state four times a second, and executes the
plan. At the end every child is stopped, also after an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.cli.demo.plan import Action, DemoSettings, duration_s, plan
from forebay.cli.demo.processes.children import Child, ChildFailed, Processes, Report
from forebay.cli.demo.report.backlog import drain_s, peak_waiting
from forebay.cli.demo.report.monitor import Monitor, Tally, accounts
from forebay.cli.demo.report.progress import Progress
from forebay.cli.demo.report.reconciliation import Reconciliation, reconcile
from forebay.cli.demo.report.samples import Event, History
from forebay.cli.demo.report.target_view import TargetView
from forebay.cli.demo.site import SINK, Site, spark_environment
from forebay.cli.demo.source.records import InputFolder
from forebay.client import Client, ClientSettings
from forebay.state.numbers import counted

SAMPLE_INTERVAL_S: Final = 0.25
"""Interval between two samples."""

READY_S: Final = 60.0
"""Time limit for a process to get ready; Spark takes longest."""

WARM_BATCHES: Final = 3
"""Micro-batches before the plan starts; the first ones are slow while Spark warms up."""

WARM_S: Final = 15.0
"""Time limit for the warm-up batches."""

RETRY_S: Final = 2.0
"""Maximum delay between two delivery attempts, short for the demo."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Result of a run."""

    reconciliation: Reconciliation
    """Result of the reconciliation."""

    broker_kills: int
    """Number of kills of the broker."""

    spark_restarts: int
    """Number of restarts of Spark's query from its checkpoint."""

    outage_s: float
    """Measured duration of the target's outage."""

    elapsed_s: float
    """Duration of the run, from the first process to the reconciliation."""

    history: History
    """Samples and events for the chart."""

    def facts(self) -> dict[str, object]:
        """Return the figures by name, for JSON."""
        drained = drain_s(self.history)
        return {
            **self.reconciliation.facts(),
            "broker_kills": self.broker_kills,
            "spark_restarts": self.spark_restarts,
            "outage_s": round(self.outage_s, 3),
            "peak_waiting": peak_waiting(self.history),
            "drain_s": None if drained is None else round(drained, 3),
            "elapsed_s": round(self.elapsed_s, 3),
            "ok": self.reconciliation.ok,
        }


class DemoRun:
    """Single run; not reusable."""

    def __init__(
        self,
        settings: DemoSettings,
        site: Site,
        progress: Progress,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._site = site
        self._progress = progress
        self._clock = clock
        self._begun = clock()
        self._first_record_at: float | None = None
        self._zero = self._begun
        self._sampled_at = self._begun
        self._history = History()
        self._tally = Tally()
        self._kills = 0
        self._down_since: float | None = None
        self._down_s = 0.0
        self._down: set[str] = set()
        self._writer = "Spark" if settings.spark else "the publisher"

    def run(self) -> DemoResult:
        """Run the demo. Raises `ChildFailed` if a process fails on its own, or recovery takes too long."""
        site = self._site
        for folder in (site.input_folder, site.checkpoint):
            folder.mkdir(parents=True)
        with Processes(site.folder) as self._processes, TargetView(site.database) as self._target:
            self._start_site()
            with Monitor(self._endpoint, SINK, self._target.count) as self._monitor:
                self._start_flow()
                self._execute_plan()
                self._finish()
                return self._compare()

    def _start_site(self) -> None:
        """Start all processes except the source; Spark takes longest, so the others start beside it."""
        site, start = self._site, self._processes.start
        self._broker = start("broker", site.broker())
        self._endpoint = str(self._ready(self._broker, "endpoint"))
        with Client(self._endpoint, settings=ClientSettings()) as client:
            client.sinks.create(SINK, partitions=self._settings.partitions, retry_backoff_max_s=RETRY_S)
        if self._settings.spark:
            self._job = start("spark", site.job(self._endpoint), environment=spark_environment(site.folder))
        self._receiver = start("target", site.target())
        target = str(self._ready(self._receiver, "url"))
        self._target_listen = target.removeprefix("http://")
        self._deliverer = start("deliverer", site.deliverer(self._endpoint, f"{target}/records"))
        self._ready(self._deliverer, "delivering")
        if not self._settings.spark:
            self._job = start("publisher", site.writer(self._endpoint))
        self._log_event(f"broker at {self._endpoint}, remote system at {target}, deliverer started")
        self._log_event(f"{self._writer} is starting")
        self._ready(self._job, "started")

    def _start_flow(self) -> None:
        settings = self._settings
        self._steps = plan(settings)
        length_s = duration_s(settings, self._steps)
        self._source = self._processes.start("source", self._site.source(settings.inputs, length_s))
        what = ", ".join(path.name for path in settings.inputs) or "live readings of this machine"
        self._log_event(f"{self._writer} has started; the input is {what}")
        self._until(lambda: self._target.count() > 0, READY_S, "no record reached the remote system")
        self._source.write_line("begin")
        self._log_event("the first records have arrived")
        if settings.spark:
            self._until(lambda: self._tally.batches >= WARM_BATCHES, WARM_S, None)
        self._source.write_line("steady")
        self._zero = self._clock()

    def _execute_plan(self) -> None:
        for step in self._steps:
            self._wait(self._zero + step.at_s)
            self._do(step.action)
        self._wait(self._zero + duration_s(self._settings, self._steps))

    def _do(self, action: Action) -> None:
        match action:
            case Action.STOP_TARGET:
                self._down.add("target")
                self._receiver.kill()
                self._down_since = self._clock()
            case Action.START_TARGET:
                self._receiver = self._processes.start("target", self._site.target(self._target_listen))
                self._ready(self._receiver, "url")
                self._down.discard("target")
                self._down_s += self._clock() - (self._down_since or self._clock())
            case Action.KILL_BROKER:
                self._down.add("broker")
                self._broker.kill()
                self._kills += 1
            case Action.START_BROKER:
                self._broker = self._processes.start("broker", self._site.broker(self._endpoint))
                self._ready(self._broker, "endpoint")
                self._down.discard("broker")
        self._log_event(action.value, action)

    def _finish(self) -> None:
        settings = self._settings
        self._down.add("source")
        self._source.end_input()
        self._until(lambda: not self._source.running, settings.drain_s, "the source did not end")
        if self._source.process.returncode != 0:
            raise ChildFailed("source", f"ended with code {self._source.process.returncode}", self._source.log_tail())
        self._source.kill()
        self._log_event(
            f"the source has ended after {counted(self._tally.produced, 'record')}; {self._writer} writes the rest"
        )
        self._down.add(self._job.name)
        self._job.end_input()
        self._until(lambda: not self._job.running, settings.drain_s, f"{self._writer} did not finish")
        if self._job.process.returncode != 0:
            raise ChildFailed(self._job.name, f"ended with code {self._job.process.returncode}", self._job.log_tail())
        self._job.kill()
        self._log_event(f"{self._writer} has written all records; the buffer drains")
        self._until(self._drained, settings.drain_s, None)

    def _drained(self) -> bool:
        stats = self._monitor.stats()
        return stats is not None and all(account.pending == 0 for account in accounts(stats))

    def _compare(self) -> DemoResult:
        self._sample()
        self._down |= {"deliverer", "target", "broker"}
        self._deliverer.stop()
        stats = self._monitor.stats()
        self._receiver.stop()
        code = self._broker.stop()
        if code != 0:
            raise ChildFailed("broker", f"ended with code {code} on stop", self._broker.log_tail())
        found = reconcile(
            InputFolder(self._site.input_folder).produced_ids(),
            self._target.rows(),
            accounts(stats) if stats is not None else [],
        )
        elapsed_s = self._clock() - self._begun
        return DemoResult(found, self._kills, self._tally.spark_restarts, self._down_s, elapsed_s, self._history)

    def _ready(self, child: Child, fact: str) -> object:
        """Return the value of ``fact`` that ``child`` reports when it is ready."""
        said: object = None
        for report in self._processes.wait_for(child, fact, timeout_s=READY_S):
            self._apply(report)
            if report.child == child.name:
                said = report.facts.get(fact, said)
        return said

    def _until(self, reached: Callable[[], bool], timeout_s: float, problem: str | None) -> None:
        """Continue until ``reached``; after ``timeout_s`` raise ``problem``, or return if it is None."""
        deadline = self._clock() + timeout_s
        while not reached():
            if self._clock() >= deadline:
                if problem is None:
                    return
                raise ChildFailed("demo", f"timed out after {timeout_s:.0f} s: {problem}", self._logs())
            self._wait(min(deadline, self._clock() + SAMPLE_INTERVAL_S))

    def _wait(self, until: float) -> None:
        """Read reports and sample until ``until``; raise if a child ended unexpectedly."""
        while (now := self._clock()) < until:
            for report in self._processes.reports(min(until, self._sampled_at + SAMPLE_INTERVAL_S)):
                self._apply(report)
            if now >= self._sampled_at + SAMPLE_INTERVAL_S:
                self._sample()
            for child in (self._broker, self._receiver, self._deliverer, self._job, self._source):
                if not child.running and child.name not in self._down and not self._ended_well(child):
                    code = child.process.returncode
                    raise ChildFailed(child.name, f"ended unexpectedly with code {code}", child.log_tail())

    def _ended_well(self, child: Child) -> bool:
        """Return True for the source of files, which ends after its last row."""
        return child is self._source and child.process.returncode == 0

    def _sample(self) -> None:
        self._sampled_at = self._clock()
        sample = self._monitor.sample(self._at_s(), produced=self._tally.produced, target_up="target" not in self._down)
        self._history.add(sample)
        self._progress.show(sample)

    def _apply(self, report: Report) -> None:
        self._tally.apply(report)
        if self._first_record_at is None and self._tally.produced:
            self._first_record_at = self._clock()
        if "because" in report.facts:
            self._log_event(f"Spark's query failed and restarts from its checkpoint: {report.facts['because']}")

    def _at_s(self) -> float:
        """Return the time since the first record; 0 before it."""
        return 0.0 if self._first_record_at is None else self._clock() - self._first_record_at

    def _log_event(self, text: str, action: Action | None = None) -> None:
        event = Event(self._at_s(), text, action)
        self._history.events.append(event)
        self._progress.happened(event)

    def _logs(self) -> str:
        tails = [(child.name, child.log_tail(6)) for child in (self._broker, self._deliverer, self._job)]
        return "\n".join(f"[{name}]\n{tail}" for name, tail in tails if tail)
