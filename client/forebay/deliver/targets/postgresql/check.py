"""Check of a database before a delivery: tables, columns and rights that it needs.

Facts are read first and judged afterwards. Nothing is written and nothing is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from psycopg import errors, sql

from forebay.deliver.targets.postgresql.rows import RECORD_COLUMNS
from forebay.deliver.targets.postgresql.settings import PostgresqlSettings, Rows
from forebay.postgresql import TimedConnection, table_of

_DELIVERED: Final = ("delivery", "incarnation", "partition", "offsets")

_SERVER: Final = (
    "SELECT current_setting('transaction_read_only') = 'on', has_database_privilege(current_database(), 'TEMPORARY')"
)
_TABLE: Final = (
    "SELECT ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = one AND attnum > 0 AND NOT attisdropped), "
    "ARRAY(SELECT needed FROM unnest('{SELECT,INSERT,UPDATE}'::text[]) AS needed "
    "WHERE has_any_column_privilege(one::oid, needed)) FROM to_regclass(%s) AS one WHERE one IS NOT NULL"
)
_MAY_CREATE: Final = (
    "SELECT has_schema_privilege(to_regnamespace(quote_ident(coalesce(%s::text, current_schema())))::oid, 'CREATE')"
)
_UPSERT: Final = (
    "EXPLAIN INSERT INTO {table} ({keys}) SELECT {keys} FROM {table} WHERE false ON CONFLICT ({keys}) DO NOTHING"
)
"""Statement with which the server finds the unique key of an upsert, or says that there is none.

A plan writes nothing.
"""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that exists, as the role sees it."""

    columns: frozenset[str]
    rights: frozenset[str]
    """``SELECT``, ``INSERT`` and ``UPDATE``, of the table or of a column."""


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that does not exist."""

    may_create: bool | None = None
    """The role may create it; None where its schema does not exist either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDatabase:
    """State of a database that a delivery depends on."""

    rows: FoundTable | MissingTable
    """Table that rows are written to."""

    delivered: FoundTable | MissingTable
    """Table of the delivered offsets."""

    is_read_only: bool = False
    may_create_temporary: bool = True
    upsert_is_unique: bool = True
    """The columns of ``upsert_by`` are those of a unique key; True also where that could not be read."""


def read(connection: TimedConnection, settings: PostgresqlSettings) -> FoundDatabase:
    """Return the state of a database for a delivery. Raises ``psycopg.Error``."""
    server = connection.execute(_SERVER).fetchone()
    assert server is not None, "it is one row"
    rows = _table(connection, settings.table)
    return FoundDatabase(
        rows=rows,
        delivered=_table(connection, settings.delivered_table),
        is_read_only=server[0],
        may_create_temporary=server[1],
        upsert_is_unique=_is_unique(connection, settings, rows),
    )


def problems(found: FoundDatabase, settings: PostgresqlSettings) -> list[str]:
    """Return the causes for which a delivery would fail, a sentence each."""
    upserts = bool(settings.upsert_by)
    records = settings.rows is Rows.RECORD
    needed = {"SELECT", "INSERT", "UPDATE"} if upserts else {"INSERT"}
    columns = RECORD_COLUMNS if records else settings.upsert_by
    said = ["the server is read-only"] if found.is_read_only else []
    said += _of_table(settings.table, found.rows, columns, needed, creates=records and settings.create)
    if upserts and not found.upsert_is_unique:
        said.append(
            f"the columns {', '.join(settings.upsert_by)} of upsert_by are no unique key of the table {settings.table}"
        )
    if upserts and not found.may_create_temporary:
        said.append("the role lacks TEMPORARY on the database, which upsert_by needs")
    needed = {"SELECT", "INSERT", "UPDATE"}
    said += _of_table(settings.delivered_table, found.delivered, _DELIVERED, needed, creates=settings.create)
    return said


def _of_table(
    name: str, found: FoundTable | MissingTable, columns: Iterable[str], rights: Iterable[str], *, creates: bool
) -> Iterator[str]:
    if isinstance(found, MissingTable):
        if not (creates and found.may_create):
            yield f"the table {name} does not exist{_obstacle(found) if creates else ''}"
        return
    if missing := [repr(column[:60]) for column in columns if column not in found.columns]:
        yield f"the table {name} has no column {', '.join(missing)}"
    if lacking := sorted(set(rights) - found.rights):
        yield f"the role lacks {', '.join(lacking)} on the table {name}"


def _obstacle(found: MissingTable) -> str:
    if found.may_create is None:
        return ", nor does its schema"
    return ", and the role lacks CREATE on its schema"


def _table(connection: TimedConnection, name: str) -> FoundTable | MissingTable:
    found = connection.execute(_TABLE, (name,)).fetchone()
    if found is not None:
        return FoundTable(frozenset(found[0]), frozenset(found[1]))
    schema = name.partition(".")[0] if "." in name else None
    created = connection.execute(_MAY_CREATE, (schema,)).fetchone()
    assert created is not None, "it is one row"
    return MissingTable(created[0])


def _is_unique(connection: TimedConnection, settings: PostgresqlSettings, rows: FoundTable | MissingTable) -> bool:
    """Return False if the server finds no unique key for the upsert."""
    keys = settings.upsert_by
    if not keys or isinstance(rows, MissingTable):
        return True
    if not (rows.columns >= set(keys) and rows.rights >= {"SELECT", "INSERT"}):
        return True
    columns = sql.SQL(", ").join(map(sql.Identifier, keys))
    try:
        connection.execute(sql.SQL(_UPSERT).format(table=table_of(settings.table), keys=columns))
    except errors.InvalidColumnReference:
        return False
    return True
