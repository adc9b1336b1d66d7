"""Calls every rpc of a real broker with unexpected requests, and checks its answers and its state.

    python -m tests.fuzz --minutes 60 [--seed N] [--directory D]

Requests are made from the descriptors (``messages``), so a call that is added is covered: valid ones, ones at the
bounds, damaged bytes, streams in odd orders that are cut off. No call may end with ``UNKNOWN``, ``INTERNAL`` or without
a reason, or not at all; the log may have no traceback; memory and descriptors may not grow; accounts have to balance,
and the broker has to stop and start again. The last line is a JSON object; exit code 1 says that there are findings.
The seed draws the same requests again, as far as the answers are the same.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.fuzz.running import Options, run


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="draws the same requests again")
    parser.add_argument("--directory", type=Path, default=None, help="where the store is; kept")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="forebay-fuzz-"))
    directory.mkdir(parents=True, exist_ok=True)
    report = run(Options(given.minutes * 60, seed, directory, say=lambda text: print(text, flush=True)))
    for kind, example in report.findings.items():
        print(f"{kind}\n{example}\n", flush=True)
    if report.findings:
        print(f"store and log are in {directory}")
    elif given.directory is None:
        shutil.rmtree(directory)
    print(report.line(), flush=True)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
