"""Faults of all kinds between a broker and its clients, and what the clients made of each.

    python -m tests.fault_client.campaign [--rounds 500] [--seed N] [--kinds reset,clock] [--hold 6] [--slack 20]

A real ``forebay serve``, a publisher and a subscriber, each in a process of its own, and a wire between them. A round
is one fault. Then records have to be acknowledged and delivered again within what the documentation says of that fault,
and ``--slack`` on top for a busy machine. After ``--stage`` rounds all that was acknowledged has to be delivered, and
broker and clients are recreated, alternately with TLS and tokens and without. Exit code 1 says that something was lost,
stood still, or ended without a reason. Everything is on the loopback interface. ``--hold 60`` stops processes up to a
minute.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fault_client.control import built
from tests.fault_client.faults import AGAIN_S, HALF_OPEN_S, KINDS_OF_FAULT, Draw, Kind
from tests.fault_client.ledger import Ledger
from tests.fault_client.processes import Keys, Stage
from tests.fault_client.worker import ASYNCIO
from tests.support.processes.broker import BrokerEnded

CALL_MAX_S: Final = 50.0
"""Documented for a call: tries for 20 s, the last of which takes 30 s at most."""
DRAIN_MAX_S: Final = AGAIN_S + HALF_OPEN_S
FATAL: Final = ("hung", "lost", "twice", "disorder", "gaps", "without reason", "slow calls", "bad ends")


@dataclass(slots=True)
class Row:
    """One kind's figures."""

    rounds: int = 0
    longest_stall_s: float = 0.0
    """From when the fault began until records sent after it went through."""

    longest_after_s: float = 0.0
    """From when the fault was over."""

    hits: int = 0
    """Rounds in which the fault took hold: a call that should fail may not have been made."""

    hung: int = 0
    lost: int = 0
    ends: int = 0
    unexplained: int = 0


@dataclass(slots=True)
class Found:
    """Result of a campaign."""

    rows: dict[str, Row] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def row(self, kind: str) -> Row:
        """Return the row of a kind."""
        return self.rows.setdefault(kind, Row())

    @property
    def failed(self) -> list[str]:
        """Counts that should be 0 and are not."""
        return [name for name in FATAL if self.counts[name]]


class Campaign:
    """Rounds, one after another. Used from one thread."""

    def __init__(
        self, kinds: tuple[Kind, ...], chance: random.Random, hold_s: float, slack_s: float, until: float
    ) -> None:
        self._kinds = kinds
        self._chance = chance
        self._hold_s = hold_s
        self._slack_s = slack_s
        self._until = until
        self._turns: Counter[str] = Counter()
        self.found: Final = Found()

    def stage(self, folder: Path, rounds: int, library: Path | None, *, secure: bool) -> None:
        """Do some rounds on a fresh broker, and check all their results."""
        ledger, names = Ledger(), [""]
        stage = Stage(folder, ledger, library, Keys(folder) if secure else None)
        try:
            self._go_on(stage, "start", time.monotonic(), AGAIN_S)
            for number in range(1, rounds + 1):
                if self.is_over():
                    break
                kind = self._drawn(stage)
                names.append(kind.name)
                ledger.round = number
                self._round(stage, kind)
            self._end(stage)
        finally:
            stage.close()
        self._judge(stage, names)

    def is_over(self) -> bool:
        """True if its time is over."""
        return time.monotonic() > self._until

    def _drawn(self, stage: Stage) -> Kind:
        """Draw a kind; one that has come up less often is likelier, so that few rounds see all of them."""
        fitting = [kind for kind in self._kinds if kind.fits(stage)]
        least = min(self._turns[kind.name] / kind.weight for kind in fitting)
        return self._chance.choice([kind for kind in fitting if self._turns[kind.name] / kind.weight <= least + 0.5])

    def _round(self, stage: Stage, kind: Kind) -> None:
        draw = Draw(self._chance, self._hold_s, self._turns[kind.name])
        self._turns[kind.name] += 1
        began = time.monotonic()
        done = kind.act(stage, draw)
        over = time.monotonic()
        went_on = self._go_on(stage, kind.name, over, kind.bound_s)
        row = self.found.row(kind.name)
        row.rounds += 1
        row.hits += not kind.calls or stage.control is None or stage.control.get("hits") > 0
        self.found.counts["rounds"] += 1
        now = time.monotonic()
        row.longest_stall_s = max(row.longest_stall_s, now - began)
        row.longest_after_s = max(row.longest_after_s, now - over)
        print(
            f"{self.found.counts['rounds']:4} {kind.name:22} {now - over:6.1f} s{'' if went_on else ' HUNG'}  {done}",
            flush=True,
        )

    def _go_on(self, stage: Stage, kind: str, since: float, bound_s: float) -> bool:
        if stage.ledger.going_on(since, since + bound_s + self._slack_s, stage.look):
            return True
        late = stage.ledger.waiting_for(since)
        self.found.row(kind).hung += 1
        self.found.counts["hung"] += 1
        self.found.remarks.append(f"{kind}: no new records {late} for {bound_s + self._slack_s:g} s")
        return False

    def _end(self, stage: Stage) -> None:
        """Stop the publisher, let everything be delivered, stop the rest."""
        for role in ("publish", "subscribe"):
            if not stage.workers[role].stop(CALL_MAX_S + DRAIN_MAX_S + self._slack_s):
                self._bad_end(f"the client {role} did not stop in good order: {_tail(stage.workers[role].log)}")
            if role == "publish":
                stage.ledger.all_delivered(time.monotonic() + DRAIN_MAX_S + self._slack_s, stage.look)
        code = stage.broker.terminate(120.0)
        if code != 0:
            self._bad_end(f"the broker's stop had exit code {code}")

    def _bad_end(self, remark: str) -> None:
        self.found.counts["bad ends"] += 1
        self.found.remarks.append(remark)

    def _judge(self, stage: Stage, names: list[str]) -> None:
        ledger, counts = stage.ledger, self.found.counts
        stage.new_log()
        for number, lost in ledger.lost().items():
            self.found.row(names[number] or "start").lost += lost
            counts["lost"] += lost
        for number, ended in ledger.ends:
            row = self.found.row(names[number] or "start")
            row.ends += 1
            counts[f"{ended.who} ended: {ended.error} {ended.reason}".rstrip()] += 1
            if not ended.has_reason:
                row.unexplained += 1
                counts["without reason"] += 1
                self.found.remarks.append(f"{names[number]}: {ended}")
        for number, took in ledger.calls:
            allowed = CALL_MAX_S + self._slack_s + self._hold_s
            if took > allowed:
                counts["slow calls"] += 1
                self.found.remarks.append(f"{names[number]}: a call took {took:.1f} s")
        counts["longest call, s"] = max(counts["longest call, s"], round(max((t for _, t in ledger.calls), default=0)))
        counts["acknowledged"] += ledger.acknowledged
        counts["redelivered"] += ledger.redelivered
        counts["twice"] += ledger.twice
        counts["disorder"] += ledger.disorder + ledger.out_of_order()
        counts["gaps"] += len(ledger.gaps)
        counts["restarts"] += stage.restarts
        counts["tracebacks"] += stage.tracebacks
        self.found.remarks += ledger.gaps[:3]


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1500:]


def table(found: Found) -> str:
    """Return what was found, kind by kind."""
    lines = [
        f"{'kind':24}{'rounds':>8}{'hit':>5}{'stall s':>9}{'after s':>9}{'hung':>6}{'lost':>6}{'ends':>6}{'unsaid':>8}"
    ]
    lines += [
        f"{name:24}{row.rounds:8}{row.hits:5}{row.longest_stall_s:9.1f}{row.longest_after_s:9.1f}"
        f"{row.hung:6}{row.lost:6}{row.ends:6}{row.unexplained:8}"
        for name, row in sorted(found.rows.items())
    ]
    return "\n".join([*lines, *found.remarks])


def run(
    rounds: int,
    folder: Path,
    *,
    seed: int = 1,
    kinds: tuple[Kind, ...] = KINDS_OF_FAULT,
    hold_s: float = 6.0,
    slack_s: float = 20.0,
    stage_rounds: int = 25,
    minutes: float = math.inf,
) -> Found:
    """Do rounds; returns what was found."""
    library = built(folder)
    if library is None:
        print("gcc was not found: no faults of the store and of the clock", flush=True)
    campaign = Campaign(kinds, random.Random(seed), hold_s, slack_s, time.monotonic() + 60 * minutes)
    left, number = rounds, 0
    while left > 0 and not campaign.is_over():
        number += 1
        place = folder / f"stage-{number}"
        place.mkdir()
        try:
            campaign.stage(place, min(left, stage_rounds), library, secure=number % 2 == 0)
        except BrokerEnded as error:
            campaign.found.counts["bad ends"] += 1
            campaign.found.remarks.append(str(error))
        left -= stage_rounds
    return campaign.found


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault_client.campaign", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--kinds", default="", help="words of the names of kinds, by commas; all without it")
    parser.add_argument("--hold", type=float, default=6.0, help="most seconds that something is stopped or held for")
    parser.add_argument("--slack", type=float, default=20.0, help="seconds on top of each bound")
    parser.add_argument("--stage", type=int, default=25, help="rounds on one broker")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round after so many")
    parser.add_argument("--asyncio", action="store_true", help="publisher and subscriber use the asyncio client")
    given = parser.parse_args()
    if given.asyncio:
        os.environ[ASYNCIO] = "1"  # the workers inherit it
    words = [word for word in given.kinds.split(",") if word]
    kinds = tuple(kind for kind in KINDS_OF_FAULT if not words or any(word in kind.name for word in words))
    if not kinds:
        parser.error(
            f"--kinds {given.kinds}: no such kind; there are {', '.join(kind.name for kind in KINDS_OF_FAULT)}"
        )
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="forebay-fault-client-") as folder:
        found = run(
            given.rounds,
            Path(folder),
            seed=given.seed,
            kinds=kinds,
            hold_s=given.hold,
            slack_s=given.slack,
            stage_rounds=given.stage,
            minutes=given.minutes,
        )
    print(table(found))
    print(json.dumps({"failed": found.failed, **found.counts}))
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
