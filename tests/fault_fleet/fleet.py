"""Fleet: the brokers of one shard, each with a directory, an endpoint and a way to the journal of its own.

Clients reach a broker through a proxy, its door. A broker that has ended is started again, as by a supervisor: where
another one has fenced it, its exit code has to be 1. Used from one thread, but for what says otherwise.
"""

from __future__ import annotations

import os
import random
import signal
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fault_fleet.journals import BROKERS, Journal
from tests.support.campaigns.successors import Serving
from tests.support.processes.broker import BrokerEnded, BrokerProcess, Launcher, free_port
from tests.support.proxies.tcp import TcpProxy
from tests.support.storage.destruction import destroy_store

POLL_S: Final = 0.02
SETTLES_S: Final = 180.0
"""Time limit for one owner and followers that keep up, on a busy machine."""
ENDS_S: Final = 60.0
"""Time limit for the end of an owner that was fenced, from when it could know."""
KEEPS_UP_S: Final = 1.0
"""Lag of a follower that takes over without a delay."""
GARBAGE_BYTES: Final = 8 << 20
"""So little that the journal is trimmed again and again."""
BATCH_BYTES: Final = (1, 4 << 20)
"""Of the lives of a broker in turn: batches that are appended beside others, and batches one after the other."""
EMPTY: Final = 0.2
"""Share of the starts on an empty directory."""
FENCED: Final = " is above "
"""Part of what a broker logs that finds the fence of a later owner."""


@dataclass(frozen=True, slots=True)
class Service:
    """Moment from which a life of a broker was seen to serve."""

    member: str
    life: int
    at_s: float
    """Monotonic time; the fence of this owner is in the journal before."""


class Member:
    """One broker of the fleet."""

    def __init__(self, name: str, directory: Path, journal: Journal) -> None:
        self.name: Final = name
        self.store: Final = directory / f"store-{name}"
        self.log: Final = self.store.with_name(f"{self.store.name}.log")
        self.endpoint: Final = f"127.0.0.1:{free_port()}"
        self.metrics: Final = f"127.0.0.1:{free_port()}"
        self.door: Final = TcpProxy(self.endpoint)
        self.journal, self.way = journal.way()
        """Address of the journal for this broker, and what is on the way there."""
        self.life = 0
        """Number of the process; any thread may read it."""
        self.served_at: float | None = None
        """Time from which this life was seen to serve; None for a follower."""
        self.process: BrokerProcess | None = None
        self._log_begins = 0

    def start(self, launcher: Launcher, takeover_after_s: float) -> None:
        """Start the next life."""
        self._log_begins = self.log.stat().st_size if self.log.exists() else 0
        self.served_at = None
        self.life += 1
        self.process = launcher.start(
            self.store,
            self.endpoint,
            journal=self.journal,
            takeover_after_s=takeover_after_s,
            journal_garbage_bytes=GARBAGE_BYTES,
            journal_batch_bytes=BATCH_BYTES[self.life % len(BATCH_BYTES)],
            metrics_listen=self.metrics,
        )

    def was_fenced(self) -> bool:
        """Return True if this life has logged that a later owner fenced it."""
        with self.log.open("rb") as log:
            log.seek(self._log_begins)
            return FENCED.encode() in log.read()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self.process.kill()
            self.process = self.served_at = None

    def lag_s(self) -> float | None:
        """Return the lag that a follower exports, in seconds; None while it exports none."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=2.0) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        found = [line for line in lines if line.startswith("forebay_follower_lag_seconds")]
        return float(found[0].rpartition(" ")[2]) if found else None


class Fleet:
    """A ``Successors`` whose brokers change roles; see the module."""

    def __init__(
        self,
        launcher: Launcher,
        directory: Path,
        journal: Journal,
        chance: random.Random,
        fault: Callable[[str], None],
        *,
        takeover_after_s: float,
        brokers: int = BROKERS,
    ) -> None:
        """``fault`` is called with what no broker should have done."""
        self._launcher, self._chance, self._fault = launcher, chance, fault
        self.takeover_after_s: Final = takeover_after_s
        self.members: Final = [Member(name, directory, journal) for name in "abcdefgh"[:brokers]]
        self.logs: list[Path] = [member.log for member in self.members]
        self.endpoint: Final = "ipv4:" + ",".join(member.door.endpoint for member in self.members)
        """Address for clients: the doors of all brokers."""
        self.services: list[Service] = []
        """Every life that came to serve, in order; any thread may read it."""
        self.fenced_ends = 0
        """Owners that ended because they were fenced."""
        self._empty_starts = 0

    # -- campaign

    def start(self) -> Serving:
        """Start the brokers that do not run, and return whichever owns the shard."""
        for member in self.members:
            if member.process is None:
                self.restart(member)
        return FleetOwner(self)

    def end(self) -> None:
        """Kill the brokers, and close the proxies."""
        for member in self.members:
            member.kill()
            member.door.close()
            if member.way is not None:
                member.way.close()

    def figures(self) -> dict[str, int]:
        """Return what was done beside the faults, and what came of it."""
        logged = [log.read_text(errors="replace") for log in self.logs if log.exists()]
        return {
            "owners": len(self.services),
            "fenced_ends": self.fenced_ends,
            "empty_starts": self._empty_starts,
            "checkpoints_loaded": sum(text.count(" loaded a checkpoint ") for text in logged),
            "checkpoints_not_completed": sum(text.count(" checkpoint was not completed ") for text in logged),
        }

    # -- roles

    def restart(self, member: Member) -> None:
        """Start a broker that has ended, sometimes on an empty directory."""
        if member.store.exists() and self._chance.random() < EMPTY:
            self._empty_starts += 1
            destroy_store(member.store)
        member.start(self._launcher, self.takeover_after_s)

    def poll(self) -> None:
        """Note the brokers that serve, and those that have ended, which are started again."""
        for member in self.members:
            if member.process is None:
                continue
            try:
                if member.served_at is None:
                    if member.process.wait_ready(0.0) is None:
                        continue
                    member.served_at = time.monotonic()
                    self.services.append(Service(member.name, member.life, member.served_at))
                has_ended = member.process.has_ended()
            except BrokerEnded:  # before it served
                has_ended = True
            if has_ended:
                self._note_end(member, member.process.wait())
                self.restart(member)

    def _note_end(self, member: Member, code: int) -> None:
        if code == 1 and member.was_fenced():
            self.fenced_ends += 1
        else:
            self._fault(f"broker {member.name} ended with {code} by itself")

    def watch(self, seconds: float) -> None:
        """Poll for a time."""
        self.wait(lambda: False, seconds)

    def wait(self, found: Callable[[], bool], seconds: float) -> bool:
        """Poll until something is found; returns False if it was not in time."""
        until = time.monotonic() + seconds
        while True:
            self.poll()
            if found():
                return True
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)

    def serving(self) -> list[Member]:
        """Return the brokers that serve, the latest owner last."""
        return sorted((one for one in self.members if one.served_at is not None), key=lambda one: one.served_at or 0.0)

    def others(self, member: Member) -> list[Member]:
        """Return the other brokers."""
        return [one for one in self.members if one is not member]

    def settle(self, seconds: float = SETTLES_S) -> Member:
        """Return the owner once no other broker serves, and the others follow without a lag."""
        until = time.monotonic() + seconds
        while True:
            owner = self._owner_alone(until - time.monotonic())
            if all(self._keeps_up(member) for member in self.others(owner)) and self.serving() == [owner]:
                return owner
            if time.monotonic() > until:
                lags = {member.name: member.lag_s() for member in self.members}
                raise BrokerEnded(f"the followers of {owner.name} do not keep up after {seconds:g} s: {lags}")
            self.watch(POLL_S)

    def _keeps_up(self, member: Member) -> bool:
        lag_s = member.lag_s()
        return lag_s is not None and lag_s < KEEPS_UP_S

    def _owner_alone(self, seconds: float) -> Member:
        if not self.wait(lambda: len(self.serving()) == 1, max(0.0, seconds)):
            raise BrokerEnded(f"{[member.name for member in self.serving()]} serve at once, or none does")
        return self.serving()[0]

    def successor_since(self, at_s: float) -> bool:
        """Return True if a broker has begun to serve since then."""
        return bool(self.services) and self.services[-1].at_s >= at_s

    def ended(self, member: Member, life: int) -> None:
        """Wait for the end of an owner that was fenced."""
        if not self.wait(lambda: member.life != life, ENDS_S):
            self._fault(f"broker {member.name} still runs {ENDS_S:g} s after another one owns the shard")
            member.kill()
            self.restart(member)


class FleetOwner:
    """Owner of the fleet, whichever of its brokers that is; see ``Serving``."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def wait_ready(self, timeout_s: float = SETTLES_S) -> str | None:
        """Return the endpoint for clients once one of them serves."""
        return self.ready(timeout_s)

    def ready(self, timeout_s: float = SETTLES_S) -> str:
        """Return the endpoint for clients once one of them serves, and the others follow."""
        self._fleet.settle()
        return self._fleet.endpoint

    def has_ended(self) -> bool:
        """Return False: another broker takes over."""
        return False

    def kill(self) -> int:
        """Kill the owners; returns 0."""
        for member in self._fleet.serving():
            member.kill()
        return 0

    def ask_to_stop(self) -> None:
        """Ask the owner to stop."""
        self._fleet.settle().signal(signal.SIGTERM)

    def terminate(self, timeout_s: float = ENDS_S) -> int:
        """Stop the owner; returns its exit code."""
        member = self._fleet.settle()
        member.signal(signal.SIGTERM)
        return self._end(member, ENDS_S)

    def wait(self, timeout_s: float = ENDS_S) -> int:
        """Return the exit code of the owner."""
        return self._end(self._fleet.settle(), timeout_s)

    def _end(self, member: Member, timeout_s: float) -> int:
        assert member.process is not None
        code = member.process.wait(timeout_s)
        member.process = member.served_at = None
        return code

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the fleet ends its brokers."""
