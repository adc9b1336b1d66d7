"""Compares what the job has written with what the database holds and with the broker's account.

    python check.py --db URL --table NAME --sink NAME --ticks N [--wait-s N]      (the broker: FOREBAY_ENDPOINT)

Runs in the deliverer's container, once the job has stopped: waits until nothing is pending, then writes one JSON
object, and ends with 0 only when every tick below N is in the table, every offset of each partition is there once, and
the broker's account balances and agrees with the table. It waits by the broker's own stream of statistics.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

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


def compare(database: psycopg.Connection[Any], table: str, stats: SinkStats, ticks: int) -> dict[str, int | bool]:
    """Return the figures."""
    rows, distinct, present = _row(
        database,
        """SELECT count(*), count(DISTINCT (incarnation, partition, record_offset)),
        count(DISTINCT value ->> 'tick') FILTER (WHERE value ->> 'entity' = %s AND (value ->> 'tick')::bigint < %s)
        FROM {table}""",
        table,
        (ALWAYS, ticks),
    )
    (skipped,) = _row(
        database,
        """SELECT coalesce(sum(last + 1 - rows), 0) FROM
        (SELECT max(record_offset) AS last, count(*) AS rows FROM {table} GROUP BY incarnation, partition) AS found""",
        table,
    )
    accounts = stats.subscriptions[0].partitions
    return {
        "ticks": ticks,
        "ticks_missing": ticks - present,
        "published": sum(part.next_offset for part in stats.partitions),
        "acked": sum(part.acked for part in accounts),
        "pending": sum(part.pending for part in accounts),
        "dropped": sum(part.dropped for part in accounts),
        "rows": rows,
        "duplicates": rows - distinct,
        "offsets_missing": int(skipped),
        "identity_ok": stats.identity_ok,
    }


def _row(database: psycopg.Connection[Any], query: LiteralString, table: str, values: Sequence[Any] = ()) -> Any:
    found = database.execute(sql.SQL(query).format(table=sql.Identifier(table)), values).fetchone()
    assert found is not None, "an aggregate has one row"
    return found


def main() -> int:
    """Wait, compare, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--sink", required=True)
    parser.add_argument("--ticks", type=int, required=True)
    parser.add_argument("--wait-s", type=float, default=120.0)
    options = parser.parse_args()
    with Client(os.environ["FOREBAY_ENDPOINT"]) as client:
        stats = drained(client, options.sink, options.wait_s)
    with psycopg.connect(options.db) as database:
        found = compare(database, options.table, stats, options.ticks)
    wrong = sum(found[name] for name in ("ticks_missing", "pending", "dropped", "duplicates", "offsets_missing"))
    agrees = found["published"] == found["acked"] == found["rows"]
    ok = found["ticks"] > 0 and wrong == 0 and agrees and bool(found["identity_ok"])
    sys.stdout.write(json.dumps({**found, "ok": ok}) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
