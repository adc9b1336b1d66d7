"""Works a broker for a long time with many sinks of all kinds, and looks whether anything grows, stays or is lost.

    python -m tests.soak --minutes 60 [--sinks 200] [--seed N] [--directory D]

A real ``forebay serve`` has sinks with settings mixed by chance (``mix``), publishers at random rates, targets with
outages of their own (``outages``), consumers that nack, stall and die, second subscriptions that are moved, and purges.
The oracle of ``tests.fault`` knows what was promised. In the end everything is acked: the disk has to be as good as
empty, the memory of the second half flat, every account exact. The last line is a JSON object; exit code 1 says
that one of it did not hold.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

import grpc._common

from tests.soak.running import Options, run

WAIT_S: Final = 2.0
"""Interval at which a thread of gRPC checks for the end."""


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of load; what comes before and after is more")
    parser.add_argument("--sinks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="draws the same sinks again; the rest is chance")
    parser.add_argument("--directory", type=Path, default=None, help="where the store is; kept")
    given = parser.parse_args()
    # Every waiting thread of gRPC wakes up ten times a second to handle signals: for hundreds of streams of one process
    # this would take most of a processor, and leave the broker little.
    grpc._common.MAXIMUM_WAIT_TIMEOUT = WAIT_S
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the broker is ended too
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="forebay-soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    report = run(Options(given.minutes, given.sinks, seed, directory, say=lambda text: print(text, flush=True)))
    if given.directory is None and report.ok:
        shutil.rmtree(directory)
    elif not report.ok:
        print(f"store and log are in {directory}")
    print(report.line(), flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
