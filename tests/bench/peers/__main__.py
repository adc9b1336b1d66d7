"""``make bench-peers``: Forebay beside Kafka, both syncing before they confirm. Exit code 1 when a bar is missed.

It writes into ``bench-results`` under the project, as ``python -m tests.bench`` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from forebay.process import tune
from tests.bench import report
from tests.bench.processes import ROOT
from tests.bench.values import Bar, Row

try:
    from tests.bench.peers import comparison
except ModuleNotFoundError as missing:
    if missing.name != "confluent_kafka":
        raise
    sys.exit("forebay: Kafka's client, confluent-kafka, is not installed; make bench-peers installs it.")


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of less each: for a look, not for figures")
    parser.add_argument("--rounds", type=int, default=0, help="rounds: 5, with --quick 1")
    chosen = parser.parse_args(arguments)
    tune()
    begun = time.perf_counter()
    rows: list[Row] = []
    bars: list[Bar] = []
    results = ROOT / "bench-results"
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
        comparison.measure(
            Path(name),
            rounds=chosen.rounds or (1 if chosen.quick else 5),
            quick=chosen.quick,
            rows=rows,
            bars=bars,
            say=say,
        )
    return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1


if __name__ == "__main__":
    sys.exit(main())
