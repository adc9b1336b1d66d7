"""Kills a broker again and again while it works, and compares what is left with what was promised.

    python -m tests.fault.campaign --kills 200 [--seed N] [--directory D] [--asyncio]

A real broker process on a RocksDB directory is killed with -9 at random moments and started again on the same directory
and port. Publishers and consumers work through it all, operators purge, and move second subscriptions; an oracle
outside of the broker knows what was acknowledged and what was delivered. There is a sink for each cell of a ``matrix``
of settings, and each cell's own guarantee is held against it. The last line is a JSON object; exit code 1 says that
something was lost, skipped, doubled, out of order, forgotten or out of balance.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.campaigns.killing import Campaign, Options
from tests.support.campaigns.report import Report
from tests.support.processes.broker import Launcher


def run(options: Options) -> Report:
    """Run a campaign."""
    with Launcher() as launcher:
        return Campaign(options, launcher).run()


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="draws the same lives again; the rest is chance")
    parser.add_argument("--directory", type=Path, default=None, help="where the store is; kept")
    parser.add_argument("--asyncio", action="store_true", help="publishers and consumers use the asyncio client")
    parser.add_argument(
        "--shard", action="store_true", help="two brokers with a journal: the follower serves after each kill"
    )
    parser.add_argument("--journal", default="", help="address of the journal of --shard; a directory without it")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="forebay-fault-"))
    directory.mkdir(parents=True, exist_ok=True)
    journal = (given.journal or str(directory / "journal")) if given.shard else ""

    def say(text: str) -> None:
        print(text, flush=True)

    report = run(Options(given.kills, seed, directory, say, asyncio=given.asyncio, journal=journal))
    if given.directory is None and report.ok:
        shutil.rmtree(directory)
    elif not report.ok:
        print(f"store and log are in {directory}")
    print(report.line(), flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
