"""Delivery into PostgreSQL beside psycopg's COPY of the same rows into a table of the same form, in one transaction.

This process is the deliverer. COPY has its rows as finished tuples, so the ratio is the cost of reading, decoding,
positions and acks. Rows with a schema are written to the columns of a table, as JSON objects are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Lock, Thread
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from forebay.client import Client, arrow
from forebay.deliver import Batch, BatchLimits, Delivered, Deliverer, Outcome, TargetContext
from forebay.deliver.targets import registry
from forebay.deliver.targets.target import Target
from tests.bench.processes import broker
from tests.bench.values import Bar, Row, Sample, row_of
from tests.support.stores.postgresql import DATABASE, PASSWORD, PostgresqlServer

PARTITIONS: Final = 4
PAGE_RECORDS: Final = 4_000
PAGES: Final = 100
QUICK_PAGES: Final = 25
WAIT_S: Final = 120.0
BAR: Final = 0.8
JSON_COLUMNS: Final = ("id", "price", "sensor", "unit", "note")
RECORD_COLUMNS: Final = ("incarnation", "partition", "record_offset", "event_time", "key", "value", "headers")
OF_FIELDS: Final = "CREATE TABLE {table} (id bigint PRIMARY KEY, price numeric, sensor text, unit text, note text)"
CREATE: Final = {
    "json": OF_FIELDS,
    "schema": OF_FIELDS,
    "record": (
        "CREATE TABLE {table} (incarnation text, partition int, record_offset bigint, event_time timestamptz,"
        " key bytea, value bytea, headers jsonb, PRIMARY KEY (incarnation, partition, record_offset))"
    ),
}
TITLES: Final = {"json": "rows=json", "schema": "rows=json of a schema", "record": "rows=record"}


class Counted:
    """A target that says when it has accepted all records."""

    def __init__(self, target: Target, records: int) -> None:
        self._target = target
        self._left = records
        self._lock = Lock()
        """Protects the count."""
        self.complete = Event()

    def open(self, context: TargetContext) -> BatchLimits | None:
        return self._target.open(context)

    def send(self, batch: Batch) -> Outcome:
        outcome = self._target.send(batch)
        if isinstance(outcome, Delivered):
            with self._lock:
                self._left -= len(batch)
                if self._left <= 0:
                    self.complete.set()
        return outcome

    def close(self) -> None:
        self._target.close()


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure both kinds of rows; COPY and the delivery follow each other, and which is first alternates."""
    found: dict[tuple[str, bool], list[Sample]] = {(form, ours): [] for form in CREATE for ours in (False, True)}
    with _server(folder) as server:
        for number in range(rounds):
            for form in CREATE:
                say(f"PostgreSQL, {TITLES[form]}, round {number + 1} of {rounds}")
                for ours in (True, False) if number % 2 else (False, True):
                    measured = _deliver if ours else _copy
                    found[form, ours].append(
                        measured(folder / f"{form}-{number}", server, form, QUICK_PAGES if quick else PAGES)
                    )
    for form in CREATE:
        title = TITLES[form]
        rows.append(row_of(f"COPY by psycopg, {title}", found[form, False]))
        rows.append(row_of(f"deliver to PostgreSQL, {title}", found[form, True], partitions=PARTITIONS))
        pairs = zip(found[form, True], found[form, False], strict=True)
        ratio = median(delivered.records_per_s / copied.records_per_s for delivered, copied in pairs)
        bars.append(Bar(f"deliver to PostgreSQL / COPY, {title}", ratio, BAR))


@contextmanager
def _server(folder: Path) -> Iterator[PostgresqlServer]:
    place = folder / "postgresql"
    place.mkdir()
    folder.chmod(0o755)  # the server runs as another user where this is root
    server = PostgresqlServer(place, settings=())
    try:
        server.start()
        yield server
    finally:
        server.close()


def _connect(server: PostgresqlServer) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host="127.0.0.1", port=server.port, dbname=DATABASE, user="billing", password=PASSWORD, client_encoding="utf8"
    )


def _objects(first: int) -> list[dict[str, Any]]:
    return [
        {"id": first + n, "price": n / 8, "sensor": f"sensor-{n % 97}", "unit": "kPa", "note": "x" * 120}
        for n in range(PAGE_RECORDS)
    ]


def _create(server: PostgresqlServer, form: str) -> None:
    with _connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS readings, forebay_delivered")
        connection.execute(CREATE[form].format(table="readings").encode())
    with _connect(server) as connection:
        connection.autocommit = True
        connection.execute("CHECKPOINT")


def _rows(form: str, page: int) -> list[Sequence[Any]]:
    found = _objects(page * PAGE_RECORDS)
    if form != "record":
        return [tuple(one.values()) for one in found]
    place = f"{page % PARTITIONS:032}"
    return [(place, page % PARTITIONS, one["id"], None, None, json.dumps(one).encode(), None) for one in found]


def _bytes(pages: int) -> int:
    return pages * sum(len(json.dumps(one)) for one in _objects(0))


def _copy(folder: Path, server: PostgresqlServer, form: str, pages: int) -> Sample:
    _create(server, form)
    given = [_rows(form, page) for page in range(pages)]
    columns = RECORD_COLUMNS if form == "record" else JSON_COLUMNS
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY readings ({names}) FROM STDIN").format(names=names)
    with _connect(server) as connection:
        begun = time.perf_counter()
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as copy:
            for page in given:
                for row in page:
                    copy.write_row(row)
        seconds = time.perf_counter() - begun
    return Sample(pages * PAGE_RECORDS, _bytes(pages), seconds)


def _publish(client: Client, form: str, pages: int) -> None:
    with client.publisher("readings") as publisher:
        version = 0
        for page in range(pages):
            objects = _objects(page * PAGE_RECORDS)
            if form == "schema":
                rows = pa.RecordBatch.from_pylist(objects)
                version = version or client.schemas.register("readings", arrow.encode_schema(rows.schema), previous=0)
                publisher.send_page(arrow.page(rows, version), partition=page % PARTITIONS)
            else:
                publisher.send_many([json.dumps(one).encode() for one in objects], partition=page % PARTITIONS)


def _deliver(folder: Path, server: PostgresqlServer, form: str, pages: int) -> Sample:
    _create(server, form)
    records = pages * PAGE_RECORDS
    url = f"postgresql://127.0.0.1:{server.port}/{DATABASE}"
    secret = folder.with_suffix(".secret")
    secret.write_text(f"PGUSER=billing\nPGPASSWORD={PASSWORD}\n", encoding="utf-8")
    secret.chmod(0o600)
    rows = "record" if form == "record" else "json"
    options = {"url": url, "table": "readings", "rows": rows, "credentials_file": str(secret)}
    target = Counted(registry.create("postgresql", options), records)
    with broker(folder, folder.with_suffix(".log")) as (_, endpoint), Client(endpoint) as client:
        client.sinks.create("readings", partitions=PARTITIONS, max_total_bytes=1 << 40)
        _publish(client, form, pages)
        deliverer = Deliverer(client, "readings", target)
        thread = Thread(target=deliverer.run, name="deliver")
        begun = time.perf_counter()
        thread.start()
        complete = target.complete.wait(WAIT_S)
        seconds = time.perf_counter() - begun
        deliverer.stop()
        thread.join()
        waiting = client.sinks.stats("readings").pending()
    with _connect(server) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM readings").fetchall()
    if not complete or waiting or count != records:
        raise RuntimeError(f"{count} of {records} rows were delivered in {seconds:.0f} s, {waiting} records wait")
    return Sample(records, _bytes(pages), seconds)
