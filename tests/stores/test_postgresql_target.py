"""Deliveries into a real PostgreSQL: each record once, whatever ends in between."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any, Final

import psycopg
import pytest

from forebay.client import Client, Record, SinkStats
from forebay.deliver import Batch, Delivered, Outcome, Reject, Retry, TargetContext
from forebay.deliver.targets import registry
from forebay.deliver.targets.target import Target
from tests.support.calls.eventually import stats_when
from tests.support.processes.broker import Launcher
from tests.support.stores.postgresql import DATABASE, PASSWORD, PostgresqlServer, program
from tests.support.targets.memory_source import EVENT_TIME, MemoryRecord

KILLS: Final = int(os.environ.get("FOREBAY_POSTGRESQL_KILLS", "3"))
"""Kills of the deliverer, and as many of the server."""
PROGRESS_S: Final = 300.0
"""Time limit of a deliverer that starts and delivers, on a machine that others use too."""


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[PostgresqlServer]:
    program("postgres")
    one = PostgresqlServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "billing")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


@pytest.fixture
def sql(server: PostgresqlServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to an empty schema."""
    with psycopg.connect(
        host="127.0.0.1", port=server.port, dbname=DATABASE, autocommit=True, client_encoding="utf8"
    ) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield connection


def target(server: PostgresqlServer, **options: str) -> Target:
    url = f"postgresql://127.0.0.1:{server.port}/{DATABASE}"
    return registry.create("postgresql", {"url": url, "table": "readings", **options})


@contextmanager
def opened(server: PostgresqlServer, **options: str) -> Iterator[Target]:
    one = target(server, **options)
    one.open(TargetContext("readings", "default", 2))
    try:
        yield one
    finally:
        one.close()


def batch(values: list[bytes], first: int = 0, partition: int = 0, incarnation: str = "i") -> Batch:
    """Return a batch as the deliverer cuts it."""
    records = tuple(MemoryRecord(first + number, value) for number, value in enumerate(values))
    return Batch("readings", incarnation, partition, records)


def values(*numbers: int) -> list[bytes]:
    return [json.dumps({"id": number, "price": number / 4}).encode() for number in numbers]


def rejected(outcome: Outcome) -> Reject:
    assert isinstance(outcome, Reject), outcome
    return outcome


SQL = psycopg.Connection[tuple[Any, ...]]


def rows(sql: SQL, query: str) -> list[tuple[Any, ...]]:
    return sql.execute(query.encode()).fetchall()


def test_records_are_rows_with_their_position_and_the_tables_are_created(server: PostgresqlServer, sql: SQL) -> None:
    record = MemoryRecord(7, b"\x00\xff", b"key", [("unit", b"C")], EVENT_TIME)
    with opened(server) as one:
        assert one.send(Batch("readings", "i", 2, (record,))) == Delivered()

    assert rows(sql, "SELECT * FROM readings") == [
        ("i", 2, 7, EVENT_TIME, b"key", b"\x00\xff", [["unit", "C"]]),
    ]
    assert rows(sql, "SELECT delivery, incarnation, partition, offsets::text FROM forebay_delivered") == [
        ("readings/default/readings", "i", 2, "{[7,8)}"),
    ]


def test_partitions_that_begin_together_create_the_tables_once(server: PostgresqlServer, sql: SQL) -> None:
    for _ in range(20):
        sql.execute("DROP TABLE IF EXISTS readings, forebay_delivered")
        begin = Barrier(4)

        def send(partition: int, one: Target, begin: Barrier = begin) -> Outcome:
            begin.wait(30)
            return one.send(batch(values(partition), partition=partition))

        with opened(server) as one, ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(partial(send, one=one), range(4)))

        assert outcomes == [Delivered()] * 4
        assert rows(sql, "SELECT count(*) FROM readings") == [(4,)]


def test_values_may_be_jsonb_and_a_value_that_is_no_json_is_rejected(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server, value="jsonb") as one:
        assert one.send(batch([b'{"a": 1}'])) == Delivered()
        found = rejected(one.send(batch([b"nonsense of a payload"], first=1)))

    assert rows(sql, "SELECT value -> 'a' FROM readings") == [(1,)]
    assert found.exact
    assert "nonsense" not in found.reason
    assert found.reason.startswith("InvalidTextRepresentation (22P02) column value")


def test_fields_of_json_are_columns_and_missing_ones_have_their_defaults(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute(
        "CREATE TABLE readings (id bigint PRIMARY KEY, price numeric, tags jsonb, ok bool, at timestamptz,"
        " note text DEFAULT 'none', number bigserial)"
    )
    given = [
        b'{"id": 1, "price": 0.12345678901234567890123, "tags": {"a": [1.5, null]}, "ok": true}',
        b'{"id": 2, "at": "2026-01-31T10:00:00Z", "note": null}',
        '{"id": 3, "note": "\\t \\n \\\\ ü", "price": 1e3}'.encode(),
    ]
    with opened(server, rows="json") as one:
        assert one.send(batch(given)) == Delivered()

    found = rows(sql, "SELECT id, price::text, tags, ok, at::text, note, number FROM readings ORDER BY id")
    assert found == [
        (1, "0.12345678901234567890123", {"a": [1.5, None]}, True, None, "none", 1),
        (2, None, None, None, "2026-01-31 10:00:00+00", None, 2),
        (3, "1000", None, None, None, "\t \n \\ ü", 3),
    ]


@pytest.mark.parametrize("value", [b"[1]", b"{", b'"x"', b'{"id": 1, "colour": "red"}', b'{"id": NaN}', b"{}", b"\xff"])
def test_a_batch_with_a_value_that_is_no_row_stores_nothing_and_is_rejected_exactly_if_it_has_one_record(
    server: PostgresqlServer, sql: SQL, value: bytes
) -> None:
    sql.execute("CREATE TABLE readings (id bigint)")
    with opened(server, rows="json") as one:
        assert not rejected(one.send(batch([b'{"id": 1}', value]))).exact
        assert rejected(one.send(batch([value]))).exact
        assert rows(sql, "SELECT count(*) FROM readings") == [(0,)]


def test_unknown_fields_may_be_ignored(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute("CREATE TABLE readings (id bigint)")
    with opened(server, rows="json", unknown_fields="ignore") as one:
        assert one.send(batch([b'{"id": 1, "colour": "red"}'])) == Delivered()

    assert rows(sql, "SELECT * FROM readings") == [(1,)]


def test_a_value_that_a_column_refuses_names_the_column_and_not_the_value(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute("CREATE TABLE readings (id bigint PRIMARY KEY, price numeric CHECK (price > 0))")
    with opened(server, rows="json") as one:
        wrong = rejected(one.send(batch([b'{"id": "secret-17"}'])))
        failed = rejected(one.send(batch([b'{"id": 1, "price": -421}'])))
        one.send(batch([b'{"id": 2}'], first=1))
        twice = rejected(one.send(batch([b'{"id": 2}'], first=2)))

    assert wrong.reason.startswith("InvalidTextRepresentation (22P02) column id")
    assert failed.reason.startswith("CheckViolation (23514) constraint readings_price_check")
    assert twice.reason.startswith("UniqueViolation (23505) constraint readings_pkey")
    assert not {"secret-17", "421"} & set(" ".join((wrong.reason, failed.reason)).split("'"))
    assert "secret" not in wrong.reason


def test_a_repeated_batch_in_any_cut_writes_each_record_once(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server) as one:
        one.send(batch(values(0, 1, 2)))
        assert one.send(batch(values(0, 1, 2))) == Delivered()
        assert one.send(batch(values(1, 2, 3, 4), first=1)) == Delivered()
        assert one.send(batch(values(0), incarnation="j")) == Delivered()
        assert one.send(batch(values(0), partition=1)) == Delivered()

    found = rows(sql, "SELECT incarnation, partition, record_offset FROM readings ORDER BY 1, 2, 3")
    assert found == [("i", 0, n) for n in range(5)] + [("i", 1, 0), ("j", 0, 0)]


def test_records_that_are_redelivered_behind_later_ones_are_written(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server) as one:
        one.send(batch(values(0)))
        one.send(batch(values(3, 4), first=3))
        assert rows(sql, "SELECT offsets::text FROM forebay_delivered") == [("{[0,1),[3,5)}",)]
        assert one.send(batch(values(1, 2, 3), first=1)) == Delivered()

    assert rows(sql, "SELECT record_offset FROM readings ORDER BY 1") == [(n,) for n in range(5)]
    assert rows(sql, "SELECT offsets::text FROM forebay_delivered") == [("{[0,5)}",)]


def test_rows_replace_those_with_their_key_and_the_last_one_of_a_batch_counts(
    server: PostgresqlServer, sql: SQL
) -> None:
    sql.execute("CREATE TABLE readings (id bigint GENERATED ALWAYS AS IDENTITY, a text, b text, n int, UNIQUE (a, b))")
    with opened(server, rows="json", upsert_by="a, b") as one:
        one.send(batch([b'{"a": "x", "b": "y", "n": 1}', b'{"a": "x", "b": "z", "n": 2}']))
        one.send(
            batch([b'{"a": "x", "b": "y", "n": 3}', b'{"a": "x", "b": "y", "n": 4}', b'{"a":"q","b":"r"}'], first=2)
        )
        missing = rejected(one.send(batch([b'{"a": "x", "n": 5}'], first=5)))

    assert rows(sql, "SELECT a, b, n FROM readings ORDER BY a, b") == [("q", "r", None), ("x", "y", 4), ("x", "z", 2)]
    assert missing.reason == "the field 'b' of the key is missing"


def test_a_missing_table_is_retried_until_it_is_there(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server, rows="json") as one:
        outcome = one.send(batch(values(1)))
        assert isinstance(outcome, Retry)
        assert outcome.reason.startswith("UndefinedTable (42P01)")
        sql.execute("CREATE TABLE readings (id bigint, price numeric)")
        assert one.send(batch(values(1))) == Delivered()
        sql.execute("ALTER TABLE readings RENAME price TO cost")
        assert isinstance(one.send(batch(values(2), first=1)), Retry)
        assert "no column" in rejected(one.send(batch(values(2), first=1))).reason

    with opened(server, table="nowhere.at_all") as one:
        assert isinstance(one.send(batch(values(1))), Retry)


@pytest.mark.parametrize("unknown_fields", ["reject", "ignore"])
def test_a_column_that_is_added_is_written_from_then_on(
    server: PostgresqlServer, sql: SQL, unknown_fields: str
) -> None:
    sql.execute("CREATE TABLE readings (id bigint)")
    with opened(server, rows="json", unknown_fields=unknown_fields) as one:
        assert one.send(batch([b'{"id": 1}'])) == Delivered()
        sql.execute("ALTER TABLE readings ADD COLUMN unit text")
        assert one.send(batch([b'{"id": 2, "unit": "kPa"}'], first=1)) == Delivered()

    assert rows(sql, "SELECT id, unit FROM readings ORDER BY id") == [(1, None), (2, "kPa")]


def test_a_server_that_hangs_or_is_gone_is_retried_in_time_and_nothing_is_doubled(
    server: PostgresqlServer, sql: SQL
) -> None:
    with opened(server, timeout_s="2") as one:
        one.send(batch(values(0)))
        server.pause()
        try:
            assert isinstance(one.send(batch(values(1), first=1)), Retry)
        finally:
            server.resume()
        assert one.send(batch(values(1), first=1)) == Delivered()
        sql.close()
        server.kill()
        try:
            assert isinstance(one.send(batch(values(2), first=2)), Retry)
        finally:
            server.start()
        assert one.send(batch(values(2), first=2)) == Delivered()
    with psycopg.connect(host="127.0.0.1", port=server.port, dbname=DATABASE) as again:
        assert rows(again, "SELECT record_offset FROM readings ORDER BY 1") == [(0,), (1,), (2,)]


def test_a_wrong_password_is_retried_with_its_reason_and_shown_nowhere(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong-secret")
    with opened(server) as one:
        outcome = one.send(batch(values(1)))

    assert isinstance(outcome, Retry)
    assert "the login was refused" in outcome.reason
    assert "secret" not in outcome.reason


@pytest.mark.timeout(2 * PROGRESS_S + 60 * KILLS)
def test_kills_of_the_deliverer_and_the_server_lose_and_double_nothing(
    server: PostgresqlServer, sql: SQL, tmp_path: Path
) -> None:
    sql.execute("CREATE TABLE readings (id bigint, price numeric)")
    sql.close()
    chance, published = random.Random(7), 0
    with Launcher() as launcher, launcher.start(tmp_path / "data", "127.0.0.1:0") as running:
        endpoint = running.ready()
        with Client(endpoint) as client:
            client.sinks.create("readings", partitions=2, retry_backoff_min_s=0.1, retry_backoff_max_s=0.2)
            victims = ["deliverer", "server"] * KILLS
            chance.shuffle(victims)
            for victim in victims:
                with delivering(endpoint, server) as process:
                    for partition in (0, 1):
                        numbers = range(published, published + 2_000)
                        client.publish("readings", [Record(one) for one in values(*numbers)], partition=partition)
                        published += 2_000
                    below = max(0, client.sinks.stats("readings").pending() - chance.randrange(4_000))
                    stats_when(client, "readings", partial(has_at_most, below), timeout_s=PROGRESS_S)
                    if victim == "server":
                        server.kill()
                        server.start()
                    else:
                        process.kill()
            with delivering(endpoint, server):
                stats_when(client, "readings", partial(has_at_most, 0), timeout_s=PROGRESS_S)
        with psycopg.connect(host="127.0.0.1", port=server.port, dbname=DATABASE) as again:
            [found] = rows(again, "SELECT count(*), count(DISTINCT id), max(id) FROM readings")

    assert found == (published, published, published - 1)


def has_at_most(waiting: int, stats: SinkStats) -> bool:
    return stats.pending() <= waiting


@contextmanager
def delivering(endpoint: str, server: PostgresqlServer) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, "-m", "forebay.cli", "deliver", "readings", "--endpoint", endpoint),
        *("--to", f"postgresql://127.0.0.1:{server.port}/{DATABASE}", "-O", "table=readings", "-O", "rows=json"),
        *("-O", "batch_records=300", "-O", "timeout_s=5"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
