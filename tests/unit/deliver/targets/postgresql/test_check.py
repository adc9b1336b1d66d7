"""Problems of a database for a delivery; tests/stores has the checks of a real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.deliver.targets.postgresql.check import FoundDatabase, FoundTable, MissingTable, problems
from forebay.deliver.targets.postgresql.settings import PostgresqlSettings, settings_of

ALL = frozenset({"SELECT", "INSERT", "UPDATE"})
RECORDS = FoundTable(
    frozenset({"incarnation", "partition", "record_offset", "event_time", "key", "value", "headers"}),
    frozenset({"INSERT"}),
)
COLUMNS = FoundTable(frozenset({"id", "price"}), ALL)
DELIVERED = FoundTable(frozenset({"delivery", "incarnation", "partition", "offsets"}), ALL)
CREATABLE = MissingTable(may_create=True)


def settings(**options: str) -> PostgresqlSettings:
    return settings_of(url="postgresql://db/plant", table="readings", **options)


UPSERT = settings(rows="json", upsert_by="id")


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (FoundDatabase(rows=RECORDS, delivered=DELIVERED), settings()),
        (FoundDatabase(rows=CREATABLE, delivered=CREATABLE), settings()),
        (FoundDatabase(rows=FoundTable(frozenset(), ALL), delivered=CREATABLE), settings(rows="json")),
        (FoundDatabase(rows=COLUMNS, delivered=DELIVERED), UPSERT),
        (FoundDatabase(rows=RECORDS, delivered=DELIVERED, may_create_temporary=False), settings()),
    ],
)
def test_a_database_that_a_delivery_can_write_to_has_no_problem(
    found: FoundDatabase, given: PostgresqlSettings
) -> None:
    assert problems(found, given) == []


@pytest.mark.parametrize(
    ("found", "given", "said"),
    [
        (MissingTable(may_create=True), settings(rows="json"), "the table readings does not exist"),
        (MissingTable(may_create=True), settings(create="false"), "the table readings does not exist"),
        (
            MissingTable(may_create=False),
            settings(),
            "the table readings does not exist, and the role lacks CREATE on its schema",
        ),
        (MissingTable(may_create=None), settings(), "the table readings does not exist, nor does its schema"),
        (
            replace(RECORDS, columns=RECORDS.columns - {"key", "value"}),
            settings(),
            "the table readings has no column 'key', 'value'",
        ),
        (COLUMNS, settings(rows="json", upsert_by="Id"), "the table readings has no column 'Id'"),
        (replace(RECORDS, rights=frozenset({"SELECT"})), settings(), "the role lacks INSERT on the table readings"),
        (
            replace(COLUMNS, rights=frozenset({"INSERT"})),
            UPSERT,
            "the role lacks SELECT, UPDATE on the table readings",
        ),
    ],
)
def test_defects_of_the_table_of_rows_are_named(
    found: FoundTable | MissingTable, given: PostgresqlSettings, said: str
) -> None:
    assert problems(FoundDatabase(rows=found, delivered=DELIVERED), given) == [said]


@pytest.mark.parametrize(
    ("found", "create", "said"),
    [
        (CREATABLE, "false", "the table forebay_delivered does not exist"),
        (replace(DELIVERED, columns=frozenset({"delivery"})), "true", "has no column 'incarnation', 'partition'"),
        (replace(DELIVERED, rights=frozenset()), "true", "the role lacks INSERT, SELECT, UPDATE on the table forebay"),
    ],
)
def test_defects_of_the_table_of_delivered_offsets_are_named(
    found: FoundTable | MissingTable, create: str, said: str
) -> None:
    [problem] = problems(FoundDatabase(rows=RECORDS, delivered=found), settings(create=create))

    assert said in problem


def test_each_problem_of_a_database_is_named() -> None:
    found = FoundDatabase(
        rows=COLUMNS, delivered=DELIVERED, is_read_only=True, may_create_temporary=False, upsert_is_unique=False
    )

    assert problems(found, UPSERT) == [
        "the server is read-only",
        "the columns id of upsert_by are no unique key of the table readings",
        "the role lacks TEMPORARY on the database, which upsert_by needs",
    ]
