"""Compares what the job has written with what the target holds and with the broker's account.

    python check.py --db FILE --sink NAME --ticks N [--wait-s N]      (the broker: FOREBAY_ENDPOINT)

Runs in the target's container, once the job has stopped: waits until nothing is pending, then writes one JSON object,
and ends with 0 only when every tick below N is in the table, in order per partition, and the broker's account balances
and agrees with the table. It waits by the broker's own stream of statistics.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Final

from forebay.client import BrokerUnavailable, Client, SinkStats

ALWAYS: Final = "cpu/load"
"""A reading that every tick has."""


def drained(client: Client, sink: str, wait_s: float) -> SinkStats:
    """Return the statistics when nothing is pending, or after ``wait_s`` seconds."""
    until = time.monotonic() + wait_s
    for stats in client.sinks.watch(sink, interval_s=0.5):
        pending = sum(part.pending for part in stats.subscriptions[0].partitions)
        if pending == 0 or time.monotonic() > until:
            return stats
    raise BrokerUnavailable("the stream of statistics ended")


def compare(database: sqlite3.Connection, stats: SinkStats, ticks: int) -> dict[str, int | bool]:
    """Return the figures."""
    rows = database.execute("SELECT count(*) FROM records").fetchone()[0]
    arrivals = database.execute("SELECT count(*) FROM arrivals").fetchone()[0]
    out_of_order = database.execute(
        """SELECT count(*) FROM (SELECT "offset" < lag("offset") OVER (PARTITION BY source, "partition" ORDER BY seq)
        AS back FROM records) WHERE back"""
    ).fetchone()[0]
    present = database.execute(
        "SELECT count(DISTINCT value ->> '$.tick') FROM records"
        " WHERE value ->> '$.entity' = ? AND value ->> '$.tick' < ?",
        (ALWAYS, ticks),
    ).fetchone()[0]
    accounts = stats.subscriptions[0].partitions
    return {
        "ticks": ticks,
        "ticks_missing": ticks - present,
        "published": sum(part.next_offset for part in stats.partitions),
        "acked": sum(part.acked for part in accounts),
        "pending": sum(part.pending for part in accounts),
        "dropped": sum(part.dropped for part in accounts),
        "rows": rows,
        "duplicates": arrivals - rows,
        "out_of_order": out_of_order,
        "identity_ok": stats.identity_ok,
    }


def main() -> int:
    """Wait, compare, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--sink", required=True)
    parser.add_argument("--ticks", type=int, required=True)
    parser.add_argument("--wait-s", type=float, default=120.0)
    options = parser.parse_args()
    with Client(os.environ["FOREBAY_ENDPOINT"]) as client:
        stats = drained(client, options.sink, options.wait_s)
    database = sqlite3.connect(options.db)
    found = compare(database, stats, options.ticks)
    database.close()
    wrong = found["ticks_missing"] + found["pending"] + found["dropped"] + found["out_of_order"]
    agrees = found["published"] == found["acked"] == found["rows"]
    ok = found["ticks"] > 0 and wrong == 0 and agrees and bool(found["identity_ok"])
    sys.stdout.write(json.dumps({**found, "ok": ok}) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
