"""Deliveries into a real PostgreSQL: each record once, whatever ends in between."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

from forebay.client import Client, Ordering, Record
from forebay.deliver import Batch, Delivered, Outcome, Reject, Retry, TargetContext
from forebay.deliver.targets import registry
from forebay.deliver.targets.target import Checkable, Target
from tests.support.calls.eventually import until
from tests.support.processes.broker import Launcher
from tests.support.stores.postgresql import DATABASE, PASSWORD, PostgresqlServer, program
from tests.support.targets.memory_source import EVENT_TIME, MemoryRecord
from tests.support.targets.rows_batch import rows_batch, stored_page

KILLS: Final = int(os.environ.get("FOREBAY_POSTGRESQL_KILLS", "2"))
"""Kills of the deliverer, and as many of the server, in each case."""
SEED: Final = os.environ.get("FOREBAY_POSTGRESQL_SEED")
"""Seed of the kills; drawn without it."""
ROUND: Final = 12_000
"""Records that are published before a kill, half of them in each partition."""
PROGRESS_S: Final = 300.0
"""Time limit of a deliverer that starts and delivers, on a machine that others use too."""
NULLS_NOT_DISTINCT: Final = 150_000
"""First version of PostgreSQL with keys whose nulls are equal."""


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
    given = {"url": f"postgresql://127.0.0.1:{server.port}/{DATABASE}", "table": "readings"}
    return registry.create("postgresql", {**given, **options})


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


def test_records_that_are_redelivered_after_later_ones_are_written(server: PostgresqlServer, sql: SQL) -> None:
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


def sessions(sql: SQL) -> list[int]:
    """Return the processes of the server that hold the target's connections."""
    found = rows(sql, "SELECT pid FROM pg_stat_activity WHERE application_name = 'forebay-deliver' ORDER BY pid")
    return [pid for (pid,) in found]


@contextmanager
def defaults(sql: SQL, setting: str, value: str) -> Iterator[None]:
    """Change a setting of the sessions that begin from now on."""
    sql.execute(f"ALTER DATABASE {DATABASE} SET {setting} = '{value}'".encode())
    try:
        yield
    finally:
        sql.execute(f"ALTER DATABASE {DATABASE} RESET {setting}".encode())


def test_columns_that_a_record_lacks_keep_their_value_but_each_record_needs_those_that_may_not_be_null(
    server: PostgresqlServer, sql: SQL
) -> None:
    sql.execute("CREATE TABLE readings (id bigint PRIMARY KEY, name text NOT NULL, price numeric, unit text)")
    with opened(server, rows="json", upsert_by="id") as one:
        one.send(batch([b'{"id": 1, "name": "a", "price": 1, "unit": "kPa"}']))
        assert one.send(batch([b'{"id": 1, "name": "b", "price": 2}'], first=1)) == Delivered()
        lacking = rejected(one.send(batch([b'{"id": 1, "price": 3}'], first=2)))

    assert lacking.reason.startswith("NotNullViolation (23502) column name")
    assert rows(sql, "SELECT * FROM readings") == [(1, "b", 2, "kPa")]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_whose_key_has_a_null_is_rejected_in_any_cut(server: PostgresqlServer, sql: SQL, size: int) -> None:
    sql.execute("CREATE TABLE readings (a text, b text, n int, UNIQUE (a, b))")
    given = [b'{"a": "x", "b": null, "n": 1}', b'{"a": "x", "b": null, "n": 2}', b'{"a": "x", "b": "y", "n": 3}']
    with opened(server, rows="json", upsert_by="a,b") as one:
        found = rejected(one.send(batch(given[:size])))

    assert (found.reason, found.exact) == ("the field 'b' of the key is null", size == 1)
    assert rows(sql, "SELECT * FROM readings") == []


def test_a_null_is_a_value_of_a_key_whose_nulls_are_equal(server: PostgresqlServer, sql: SQL) -> None:
    if sql.info.server_version < NULLS_NOT_DISTINCT:
        pytest.skip("this PostgreSQL has no NULLS NOT DISTINCT")
    sql.execute(
        "CREATE TABLE readings (a text, b text, n int, UNIQUE (n), UNIQUE NULLS NOT DISTINCT (a, b) INCLUDE (n))"
    )
    with opened(server, rows="json", upsert_by="b,a") as one:
        assert one.send(batch([b'{"a": "x", "b": null, "n": 1}', b'{"a": "x", "b": null, "n": 2}'])) == Delivered()
        assert one.send(batch([b'{"a": "x", "b": null, "n": 3}'], first=2)) == Delivered()
    with opened(server, rows="json", upsert_by="n", delivery="by n") as one:
        assert rejected(one.send(batch([b'{"a": "x", "n": null}']))).reason == "the field 'n' of the key is null"

    assert rows(sql, "SELECT * FROM readings") == [("x", None, 3)]


def test_a_key_that_is_no_column_is_retried_until_it_is_one(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute("CREATE TABLE readings (id bigint PRIMARY KEY, price numeric)")
    with opened(server, rows="json", upsert_by="Id") as one:
        for value in (b'{"id": 1}', b'{"Id": 1}'):
            outcome = one.send(batch([value, value]))
            assert isinstance(outcome, Retry)
            assert outcome.reason.startswith("the table has no column 'Id' for upsert_by")
        sql.execute('ALTER TABLE readings RENAME id TO "Id"')
        assert one.send(batch([b'{"Id": 1}'])) == Delivered()


def test_a_value_that_is_nested_too_deeply_for_the_server_is_rejected(server: PostgresqlServer, sql: SQL) -> None:
    deep = b"[" * 10_000 + b"]" * 10_000
    with defaults(sql, "max_stack_depth", "100kB"), opened(server, value="jsonb") as one:
        among_others = rejected(one.send(batch([b"{}", deep, b"{}"])))
        found = rejected(one.send(batch([deep], first=1)))
        assert one.send(batch([b"{}"], first=2)) == Delivered()

        assert len(sessions(sql)) == 1
    assert not among_others.exact
    assert (found.reason.partition(" column")[0], found.exact) == ("StatementTooComplex (54001)", True)


@pytest.mark.parametrize("value", ["bytea", "text", "jsonb"])
def test_a_zero_byte_in_a_header_is_replaced(server: PostgresqlServer, sql: SQL, value: str) -> None:
    record = MemoryRecord(0, b"{}", None, [("schema\0", b"\0\0\0\x05")])
    with opened(server, value=value) as one:
        assert one.send(Batch("readings", "i", 0, (record,))) == Delivered()

    assert rows(sql, "SELECT headers FROM readings") == [([["schema\ufffd", "\ufffd\ufffd\ufffd\x05"]],)]


def test_a_second_delivery_writes_the_records_that_the_table_lacks(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server) as one:
        one.send(batch(values(0, 1, 2, 3)))
    sql.execute("DELETE FROM readings WHERE record_offset = 2")
    sql.execute("UPDATE readings SET key = 'changed' WHERE record_offset = 1")

    with opened(server, delivery="again") as one:
        assert one.send(batch(values(1, 2), first=1)) == Delivered()
        assert one.send(batch(values(0, 1, 2, 3, 4, 5))) == Delivered()
        assert one.send(batch(values(3), first=3)) == Delivered()
        assert one.send(batch(values(0), incarnation="j")) == Delivered()

    found = rows(sql, "SELECT incarnation, record_offset, key FROM readings ORDER BY 1, 2")
    assert found == [("i", n, b"changed" if n == 1 else None) for n in range(6)] + [("j", 0, None)]
    assert rows(sql, "SELECT delivery, offsets::text FROM forebay_delivered WHERE incarnation = 'i' ORDER BY 1") == [
        ("again", "{[0,6)}"),
        ("readings/default/readings", "{[0,4)}"),
    ]


def test_a_table_of_records_with_a_unique_key_of_its_own_rejects_what_violates_it(
    server: PostgresqlServer, sql: SQL
) -> None:
    with opened(server) as one:
        one.send(batch(values(0, 1)))
        sql.execute("CREATE UNIQUE INDEX readings_value ON readings (value)")
        new = rejected(one.send(batch(values(1), first=7)))
    with opened(server, delivery="again") as one:
        mixed = rejected(one.send(batch(values(0, 1, 1))))
        assert one.send(batch(values(0, 1))) == Delivered()

    assert new.reason.startswith("UniqueViolation (23505) constraint readings_value")
    assert mixed.reason.startswith("UniqueViolation (23505) constraint readings_value")
    assert rows(sql, "SELECT record_offset FROM readings ORDER BY 1") == [(0,), (1,)]


def test_two_deliveries_that_write_one_table_at_the_same_time_write_each_record_once(
    server: PostgresqlServer, sql: SQL
) -> None:
    begin = Barrier(2)

    def send(name: str) -> list[Outcome]:
        with opened(server, delivery=name) as one:
            begin.wait(30)
            return [one.send(batch(values(*range(n, n + 50)), first=n)) for n in range(0, 1_000, 50)]

    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(send, ["a", "b"]))

    assert outcomes == [[Delivered()] * 20] * 2
    assert rows(sql, "SELECT count(*) FROM readings") == [(1_000,)]


def test_a_session_on_a_server_that_is_read_only_is_not_used_again(server: PostgresqlServer, sql: SQL) -> None:
    with opened(server) as one:
        one.send(batch(values(0)))
    with opened(server) as one:
        with defaults(sql, "default_transaction_read_only", "on"):
            outcome = one.send(batch(values(1), first=1))
            assert isinstance(outcome, Retry)
            assert outcome.reason.startswith("ReadOnlySqlTransaction (25006)")

        assert one.send(batch(values(1), first=1)) == Delivered()

    assert rows(sql, "SELECT record_offset FROM readings ORDER BY 1") == [(0,), (1,)]


@pytest.mark.parametrize("count", [1, 3])
def test_idle_sessions_that_the_server_ends_fail_no_batch(server: PostgresqlServer, sql: SQL, count: int) -> None:
    with opened(server) as one:
        begin = Barrier(count)

        def send(partition: int) -> Outcome:
            begin.wait(30)
            return one.send(batch(values(partition), partition=partition))

        with ThreadPoolExecutor(count) as threads:
            assert list(threads.map(send, range(count))) == [Delivered()] * count
        for pid in sessions(sql):
            assert rows(sql, f"SELECT pg_terminate_backend({pid}, 60000)") == [(True,)]
        assert one.send(batch(values(7), first=1)) == Delivered()

    assert rows(sql, "SELECT count(*) FROM readings") == [(count + 1,)]


def test_each_transaction_is_on_the_disk_before_it_is_confirmed_also_behind_a_pooler(
    server: PostgresqlServer, sql: SQL
) -> None:
    sql.execute("CREATE TABLE readings (id bigint)")
    sql.execute("CREATE TABLE seen (number bigserial, synchronous_commit text)")
    sql.execute(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " INSERT INTO seen (synchronous_commit) VALUES (current_setting('synchronous_commit'));"
        # A pooler gives the next transaction to a session without the settings of this one.
        " PERFORM set_config('synchronous_commit', 'off', false);"
        " RETURN NULL; END$$"
    )
    sql.execute("CREATE TRIGGER note AFTER INSERT ON readings EXECUTE FUNCTION note()")
    with defaults(sql, "synchronous_commit", "off"), opened(server, rows="json") as one:
        for number in range(3):
            assert one.send(batch([b'{"id": 1}'], first=number)) == Delivered()

        assert len(sessions(sql)) == 1
    assert rows(sql, "SELECT synchronous_commit FROM seen ORDER BY number") == [("on",)] * 3


def test_a_database_is_reached_after_addresses_of_its_name_that_do_not_answer(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.1"]
    resolve = socket.getaddrinfo

    def resolved(host: str, port: str | int | None, **rest: int) -> list[Any]:
        names = hosts if host == "db.example" else [host]
        return [one for name in names for one in resolve(name, port, **rest)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with ExitStack() as silent:
        for host in hosts[:2]:
            listener = silent.enter_context(socket.socket())
            listener.bind((host, server.port))
            listener.listen()
        with opened(server, timeout_s="15", url=f"postgresql://db.example:{server.port}/{DATABASE}") as one:
            assert one.send(batch(values(0))) == Delivered()


def test_a_server_is_reached_through_its_socket(server: PostgresqlServer, sql: SQL, tmp_path: Path) -> None:
    url = f"postgresql://{quote(str(server.sockets), safe='')}:{server.port}/{DATABASE}"
    with opened(server, url=url) as one:
        assert one.send(batch(values(0))) == Delivered()

    assert rows(sql, "SELECT count(*) FROM readings") == [(1,)]


RIGHTS: Final = {
    "create": ["CREATE ON SCHEMA public"],
    "record": ["INSERT ON readings"],
    "conflict": ["INSERT ON readings", "SELECT ON readings"],
    "json": ["INSERT ON readings"],
    "upsert": [
        *("INSERT ON readings", "SELECT ON readings", "UPDATE ON readings"),
        f"TEMPORARY ON DATABASE {DATABASE}",
    ],
}
"""Rights of the page, beside those on the table of offsets."""
OFFSETS_RIGHTS: Final = [f"{right} ON forebay_delivered" for right in ("SELECT", "INSERT", "UPDATE")]


@pytest.mark.parametrize("case", RIGHTS)
def test_a_role_with_the_rights_of_the_page_delivers_and_without_one_it_is_retried(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    form = {"json": {"rows": "json"}, "upsert": {"rows": "json", "upsert_by": "id"}}.get(case, {})
    create = "true" if case == "create" else "false"
    if case != "create":
        with opened(server) as one:
            one.send(batch(values(0), first=0 if case == "conflict" else 1))
        if form:
            sql.execute("DROP TABLE readings")
            sql.execute("CREATE TABLE readings (id bigint PRIMARY KEY, price numeric)")
    rights = RIGHTS[case] + ([] if case == "create" else OFFSETS_RIGHTS)
    with limited_role(sql, "app"):
        monkeypatch.setenv("PGUSER", "app")
        for right in rights:
            with opened(server, create=create, delivery="app", **form) as one:
                outcome = one.send(batch(values(0)))
            assert isinstance(outcome, Retry), right
            assert "InsufficientPrivilege (42501)" in outcome.reason
            sql.execute(f"GRANT {right} TO app".encode())
        with opened(server, create=create, delivery="app", **form) as one:
            assert one.send(batch(values(0))) == Delivered()


@contextmanager
def limited_role(sql: SQL, name: str) -> Iterator[None]:
    """Create a role that may connect and use the schema, nothing else."""
    sql.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'".encode())
    sql.execute(f"GRANT USAGE ON SCHEMA public TO {name}".encode())
    sql.execute(f"REVOKE TEMPORARY ON DATABASE {DATABASE} FROM PUBLIC".encode())
    try:
        yield
    finally:
        sql.execute(f"GRANT TEMPORARY ON DATABASE {DATABASE} TO PUBLIC".encode())
        sql.execute(f"DROP OWNED BY {name}".encode())
        sql.execute(f"DROP ROLE {name}".encode())


def checked(server: PostgresqlServer, **options: str) -> str:
    """Return what the check of a target says."""
    with opened(server, **options) as one:
        assert isinstance(one, Checkable)
        return one.check()


@pytest.mark.parametrize(
    ("statements", "options", "said"),
    [
        ([], {}, ""),
        ([], {"table": "nowhere.at_all"}, "the table nowhere.at_all does not exist, nor does its schema"),
        ([], {"rows": "json"}, "the table readings does not exist"),
        (["CREATE TABLE readings (id int)"], {"rows": "json"}, ""),
        (["CREATE TABLE readings (id int)"], {}, "has no column 'incarnation', 'partition', 'record_offset'"),
        (["CREATE TABLE readings (id int)"], {"rows": "json", "upsert_by": "Id"}, "has no column 'Id'"),
        (["CREATE TABLE readings (id int)"], {"rows": "json", "upsert_by": "id"}, "are no unique key of"),
        (["CREATE TABLE readings (id int PRIMARY KEY)"], {"rows": "json", "upsert_by": "id"}, ""),
        (["CREATE TABLE readings (a int, b int, UNIQUE (b, a))"], {"rows": "json", "upsert_by": "a,b"}, ""),
        (["CREATE TABLE readings (a int, b int, UNIQUE (b, a))"], {"rows": "json", "upsert_by": "a"}, "no unique key"),
        (
            ["CREATE TABLE readings (a int)", "CREATE UNIQUE INDEX ON readings (a) WHERE a > 0"],
            {"rows": "json", "upsert_by": "a"},
            "are no unique key of the table readings",
        ),
        (["CREATE TABLE forebay_delivered (id int)"], {}, "the table forebay_delivered has no column 'delivery'"),
    ],
)
def test_a_check_names_what_a_delivery_would_fail_at_and_changes_nothing(
    server: PostgresqlServer, sql: SQL, statements: list[str], options: dict[str, str], said: str
) -> None:
    for statement in statements:
        sql.execute(statement.encode())
    before = tables(sql)

    found = checked(server, **options)
    assert tables(sql) == before
    until(lambda: sessions(sql) == [])  # the server ends them after they were closed
    with opened(server, unknown_fields="ignore", **options) as one:
        outcome = one.send(batch([b'{"id": 1, "a": 1, "b": 2}']))

    assert (outcome == Delivered()) == (found == "")
    if said:
        assert said in found
        assert found.endswith(f"(127.0.0.1/{DATABASE} table {options.get('table', 'readings')})")
    else:
        assert found == ""


def tables(sql: SQL) -> list[tuple[Any, ...]]:
    return rows(sql, "SELECT relname FROM pg_stat_user_tables ORDER BY relname")


def test_a_check_names_a_server_that_is_down_or_hangs_a_wrong_password_and_a_read_only_server(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    with defaults(sql, "default_transaction_read_only", "on"):
        assert checked(server).startswith("the server is read-only (")
    with monkeypatch.context() as wrong:
        wrong.setenv("PGPASSWORD", "wrong-secret")
        refused = checked(server)
    server.pause()
    try:
        hanging = checked(server, timeout_s="2")
    finally:
        server.resume()
    sql.close()
    server.kill()
    try:
        down = checked(server)
    finally:
        server.start()

    assert "the login was refused" in refused
    assert hanging.startswith(("OperationalError", "ConnectionTimeout"))
    assert "refused" in down
    assert not any("secret" in said for said in (refused, hanging, down))


@pytest.mark.parametrize("case", RIGHTS)
def test_a_check_names_each_right_of_the_page_that_the_role_lacks(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    form = {"json": {"rows": "json"}, "upsert": {"rows": "json", "upsert_by": "id"}}.get(case, {})
    if case != "create":
        with opened(server) as one:
            one.send(batch(values(0)))
    if form:
        sql.execute("DROP TABLE readings")
        sql.execute("CREATE TABLE readings (id bigint PRIMARY KEY, price numeric)")
    needed = RIGHTS[case] + ([] if case == "create" else OFFSETS_RIGHTS)
    with limited_role(sql, "app"):
        monkeypatch.setenv("PGUSER", "app")
        for right in needed:
            if (case, right) != ("conflict", "SELECT ON readings"):  # only needed where rows are there already
                kind, _, place = right.partition(" ON ")
                where = {"SCHEMA public": "its schema", f"DATABASE {DATABASE}": "the database"}
                lacking = rf"lacks ([A-Z]+, )*{kind}(, [A-Z]+)* on {where.get(place, f'the table {place}')}\b"
                assert re.search(lacking, checked(server, **form)), right
            sql.execute(f"GRANT {right} TO app".encode())
        assert checked(server, **form) == ""


def test_a_check_names_a_schema_that_the_role_must_not_use(
    server: PostgresqlServer, sql: SQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute("DROP SCHEMA IF EXISTS plant CASCADE")
    sql.execute("CREATE SCHEMA plant")
    sql.execute("CREATE TABLE plant.readings (id int)")
    with limited_role(sql, "app"):
        monkeypatch.setenv("PGUSER", "app")
        found = checked(server, table="plant.readings", rows="json")

    assert found.startswith("InsufficientPrivilege (42501): permission denied for schema plant (")


def test_a_check_ends_within_its_time_limit_where_the_table_is_locked(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute("CREATE TABLE readings (id int PRIMARY KEY)")
    with sql.transaction():
        sql.execute("LOCK TABLE readings IN ACCESS EXCLUSIVE MODE")
        begin = time.monotonic()
        found = checked(server, rows="json", upsert_by="id", timeout_s="1")
        took_s = time.monotonic() - begin

    assert "timeout" in found
    assert took_s < 5


def test_an_unexpected_error_leaves_no_connection_behind(server: PostgresqlServer, sql: SQL) -> None:
    class Broken(list[tuple[str, bytes]]):
        """Headers of a source with a defect."""

        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            raise LookupError("defect")

    record = MemoryRecord(0, b"", None, Broken([("unit", b"C")]))
    with opened(server) as one:
        for _ in range(2):
            with pytest.raises(LookupError, match="defect"):
                one.send(Batch("readings", "i", 0, (record,)))
        assert one.send(batch(values(0))) == Delivered()

        assert len(sessions(sql)) == 1


@dataclass(frozen=True, slots=True)
class KillCase:
    """A kind of delivery, and how its table shows a record that is lost or doubled."""

    options: Mapping[str, str]
    query: str
    expected: Callable[[int], tuple[int, ...]]
    """Row of the query after a number of records."""
    tables: Sequence[str] = ("CREATE TABLE readings (id bigint, price numeric)",)
    ordering: Ordering = Ordering.STRICT
    ids: int | None = None
    """Number of different keys, each in one partition; None for one per record."""

    def values(self, first: int) -> list[bytes]:
        """Return the records of one partition in one round."""
        numbers = range(first, first + ROUND // 2)
        ids = [one % self.ids if self.ids else one for one in numbers]
        return [json.dumps({"id": id_, "price": one / 4}).encode() for id_, one in zip(ids, numbers, strict=True)]


COUNTED: Final = "SELECT count(*), count(DISTINCT id), max(id) FROM readings"
WRITES: Final = (
    "CREATE TABLE readings (id bigint PRIMARY KEY, price numeric, writes int DEFAULT 1)",
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
    " $$BEGIN NEW.writes := OLD.writes + 1; RETURN NEW; END$$",
    "CREATE TRIGGER note BEFORE UPDATE ON readings FOR EACH ROW EXECUTE FUNCTION note()",
)
"""A row counts how often it was written: no batch has a key twice."""
KILL_CASES: Final = {
    "json": KillCase({"rows": "json"}, COUNTED, lambda n: (n, n, n - 1)),
    "json-relaxed": KillCase({"rows": "json"}, COUNTED, lambda n: (n, n, n - 1), ordering=Ordering.RELAXED),
    "record": KillCase(
        {"rows": "record"},
        "SELECT count(*), count(DISTINCT value), max(record_offset) FROM readings",
        lambda n: (n, n, n // 2 - 1),
        tables=(),
    ),
    "upsert": KillCase(
        {"rows": "json", "upsert_by": "id"},
        "SELECT count(*), sum(writes), min(price * 4 - id), max(price * 4 - id) FROM readings",
        lambda n: (ROUND, n, n - ROUND, n - ROUND),
        tables=WRITES,
        ids=ROUND,
    ),
}


@pytest.mark.timeout(2 * PROGRESS_S + 60 * KILLS)
@pytest.mark.parametrize("name", KILL_CASES)
def test_kills_of_the_deliverer_and_the_server_lose_and_double_nothing(
    server: PostgresqlServer, sql: SQL, tmp_path: Path, name: str
) -> None:
    case, published = KILL_CASES[name], 0
    seed = int(SEED) if SEED else random.SystemRandom().randrange(1 << 32)
    print(f"{name}: FOREBAY_POSTGRESQL_SEED={seed}")
    chance = random.Random(seed)
    for statement in case.tables:
        sql.execute(statement.encode())
    sql.close()
    with Launcher() as launcher, launcher.start(tmp_path / "data", "127.0.0.1:0") as running:
        endpoint = running.ready()
        with Client(endpoint) as client:
            client.sinks.create(
                "readings", partitions=2, ordering=case.ordering, retry_backoff_min_s=0.1, retry_backoff_max_s=0.2
            )
            victims = ["deliverer", "server"] * KILLS
            chance.shuffle(victims)
            for victim in victims:
                with delivering(endpoint, server, case.options) as process:
                    for partition in (0, 1):
                        records = [Record(one) for one in case.values(published)]
                        client.publish("readings", records, partition=partition)
                        published += len(records)
                    below = max(0, client.sinks.stats("readings").pending() - chance.randrange(1, ROUND))
                    until(partial(has_at_most, client, below), timeout_s=PROGRESS_S)
                    if victim == "server":
                        server.kill()
                        server.start()
                    else:
                        with connected(server) as again:
                            until(partial(has_unsettled, client, again, published), timeout_s=PROGRESS_S)
                            process.kill()
            with delivering(endpoint, server, case.options):
                until(partial(has_at_most, client, 0), timeout_s=PROGRESS_S)
        with connected(server) as again:
            [found] = rows(again, case.query)

    assert found == case.expected(published)


def connected(server: PostgresqlServer) -> SQL:
    return psycopg.connect(host="127.0.0.1", port=server.port, dbname=DATABASE, autocommit=True)


def has_unsettled(client: Client, sql: SQL, published: int) -> bool:
    """Return True if records are delivered that are not settled yet, or if all are settled."""
    [(delivered,)] = rows(sql, "SELECT sum(upper(one) - lower(one)) FROM forebay_delivered, unnest(offsets) AS one")
    pending = client.sinks.stats("readings").pending()
    return pending == 0 or delivered > published - pending


def has_at_most(client: Client, waiting: int) -> bool:
    return client.sinks.stats("readings").pending() <= waiting


@contextmanager
def delivering(
    endpoint: str, server: PostgresqlServer, options: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, "-m", "forebay.cli", "deliver", "readings", "--endpoint", endpoint),
        *("--to", f"postgresql://127.0.0.1:{server.port}/{DATABASE}", "-O", "table=readings"),
        *(word for name, value in options.items() for word in ("-O", f"{name}={value}")),
        *("-O", "batch_records=300", "-O", "timeout_s=5"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def test_rows_of_a_schema_of_all_types_are_the_values_of_their_columns(server: PostgresqlServer, sql: SQL) -> None:
    sql.execute(
        "CREATE TABLE readings (id bigint PRIMARY KEY, flag boolean, ratio float8, price numeric, name text,"
        " photo bytea, code bytea, day date, at timestamptz, noted timestamp, clock time, took interval, list jsonb,"
        " one jsonb, pairs jsonb, nothing int)"
    )
    at = datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)
    noted = at.replace(tzinfo=None)
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "flag": pa.array([True, None]),
        "ratio": pa.array([float("-inf"), 0.1]),
        "price": pa.array([Decimal("1.50"), Decimal("-99999999999999999999.01")], pa.decimal128(38, 2)),
        "name": pa.array(["a\t\\N\n\u20ac", ""]),
        "photo": pa.array([bytes(range(256)), b""], pa.binary()),
        "code": pa.array([b"\\x", None], pa.binary(2)),
        "day": pa.array([date(2026, 1, 31), date(9999, 12, 31)]),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "noted": pa.array([noted, None], pa.timestamp("us")),
        "clock": pa.array([noted.time(), None], pa.time64("us")),
        "took": pa.array([timedelta(hours=-3, microseconds=5), None], pa.duration("us")),
        "list": pa.array([[b"\xff"], []], pa.list_(pa.binary())),
        "one": pa.array([{"a": 1.5, "b": None}, None], pa.struct({"a": pa.float64(), "b": pa.string()})),
        "pairs": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
        "nothing": pa.nulls(2),
    }
    of_two = rows_batch(stored_page(pa.record_batch(columns)))
    with opened(server, rows="json", upsert_by="id") as one:
        assert one.send(of_two.only(1)) == Delivered()
        assert one.send(of_two) == Delivered()

    found = rows(sql, "SELECT * FROM readings ORDER BY id")
    stored = [column.to_pylist() for column in columns.values()]
    texts: dict[str, tuple[Any, Any]] = {"list": (["/w=="], []), "pairs": ({"k": 1}, {})}
    expected = [texts.get(name, tuple(values)) for name, values in zip(columns, stored, strict=True)]
    assert found == list(zip(*expected, strict=True))


def test_the_rest_of_a_batch_of_rows_that_is_sent_in_another_cut_keeps_its_bytes(
    server: PostgresqlServer, sql: SQL
) -> None:
    sql.execute("CREATE TABLE readings (photo bytea)")
    photos = [bytes([number]) for number in range(6)]
    whole = rows_batch(stored_page(pa.record_batch({"photo": pa.array(photos, pa.binary())})))
    with opened(server, rows="json") as one:
        assert one.send(whole.only(1)) == Delivered()
        assert one.send(whole.only(4)) == Delivered()
        assert one.send(whole) == Delivered()

    assert sorted(rows(sql, "SELECT photo FROM readings")) == [(photo,) for photo in photos]
