"""Store in PostgreSQL: ``postgresql://USER@HOST:PORT/DATABASE``.

One row per key. Each write takes a random version, so a write whose answer was lost is recognised as one's own. Host,
user, password and TLS that the URL does not name come from the environment of libpq (``PGHOST``, ``PGUSER``,
``PGPASSWORD``, ``PGPASSFILE``, ``PGSSLMODE`` …) or from the file of credentials.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from urllib.parse import unquote

import psycopg
from psycopg import errors, sql

from forebay.client.errors import PositionConflict, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.options import Credentials, options_of
from forebay.client.positions.store import StoreContext, Versioned, redacted
from forebay.client.settings import invalid_setting
from forebay.postgresql import (
    DURABLE,
    PASSWORD_VARIABLE,
    TABLE_NAME,
    USER_VARIABLE,
    DatabaseAddress,
    TimedConnection,
    connect,
    host_of,
    is_of_session,
    is_refused,
    table_of,
)

Rows = list[tuple[Any, ...]]

CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS {table} (key text PRIMARY KEY, document bytea NOT NULL, version text NOT NULL)"
)


@dataclass(frozen=True, slots=True)
class PostgresqlOptions:
    """Options of the URL."""

    table: str = "forebay_positions"
    """Table, with a schema if one is named: ``SCHEMA.TABLE``. Lower case letters, digits and ``_``."""

    create: bool = True
    """Create the table where it is missing.

    With ``false``, a missing table is an error that shows the statement.
    """

    sslmode: str = ""
    """TLS mode of libpq, such as ``verify-full``; ``PGSSLMODE`` by default."""

    sslrootcert: str = ""
    """File of the certificate authorities; ``PGSSLROOTCERT`` by default."""

    credentials_file: str = ""
    """File of lines ``NAME=value`` with ``PGUSER`` and ``PGPASSWORD``; the environment by default."""

    def __post_init__(self) -> None:
        """Reject names that would need quotes."""
        if TABLE_NAME.fullmatch(self.table) is None:
            allowed = "TABLE or SCHEMA.TABLE of lower case letters, digits and '_'"
            raise invalid_setting("store.table", repr(self.table), allowed)


class PostgresqlPositions:
    """Documents as rows of a table. Connects at the first use, and again after a failure."""

    def __init__(
        self, connect: Callable[[float], TimedConnection], options: PostgresqlOptions, place: str, rw_timeout_s: float
    ) -> None:
        self._connect = connect
        self._rw_timeout_s = rw_timeout_s
        self._options = options
        self._place = place
        self._connection: TimedConnection | None = None

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        rows = self._run("SELECT document, version FROM {table} WHERE key = %s", key)
        return Versioned(bytes(rows[0][0]), rows[0][1]) if rows else None

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        version = uuid.uuid4().hex
        if expected is None:
            written = self._run(
                "INSERT INTO {table} (key, document, version) VALUES (%s, %s, %s)"
                " ON CONFLICT (key) DO NOTHING RETURNING version, {durable}",
                *(key, document, version),
            )
        else:
            written = self._run(
                "UPDATE {table} SET document = %s, version = %s WHERE key = %s AND version = %s"
                " RETURNING version, {durable}",
                *(document, version, key, expected),
            )
        if not written:
            found = self.read(key)  # the first try of this write may have taken effect, and only its answer was lost
            if found is None or found.version != version:
                raise PositionConflict(f"the position {key} was written concurrently", facts={"key": key})
        return version

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        self._run("DELETE FROM {table} WHERE key = %s RETURNING key, {durable}", key)

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        query: LiteralString = 'SELECT key FROM {table} WHERE starts_with(key, %s) ORDER BY key COLLATE "C"'
        return iter([str(row[0]) for row in self._run(query, prefix)])

    def close(self) -> None:
        """See ``PositionStore``."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __repr__(self) -> str:
        """Return the place, never credentials."""
        return f"<PostgresqlPositions {self._place} table={self._options.table}>"

    def _run(self, statement: LiteralString, *arguments: str | bytes) -> Rows:
        """Execute a statement in a transaction of its own.

        A connection that broke since its last use is replaced, and the statement tried again.
        """
        ends_at = time.monotonic() + self._rw_timeout_s
        with self._failures():
            is_new = self._connection is None
            try:
                return self._execute(statement, arguments, ends_at)
            except (errors.OperationalError, errors.InterfaceError, errors.ReadOnlySqlTransaction) as error:
                self.close()  # after a time-out, its answer would be taken for that of the next statement
                if is_new or not is_of_session(error) or time.monotonic() >= ends_at:
                    raise
            return self._execute(statement, arguments, ends_at)

    def _execute(self, statement: LiteralString, arguments: tuple[str | bytes, ...], ends_at: float) -> Rows:
        if self._connection is None:
            self._connection = self._connect(ends_at)
        self._connection.ends_at = ends_at
        try:
            return self._connection.execute(self._in_table(statement), arguments).fetchall()
        except errors.UndefinedTable:
            if not self._options.create:
                raise
            self._create(self._connection)
            return self._connection.execute(self._in_table(statement), arguments).fetchall()

    def _create(self, connection: TimedConnection) -> None:
        with suppress(errors.UniqueViolation, errors.DuplicateTable):  # another consumer creates it at the same time
            connection.execute(self._in_table(CREATE))

    def _in_table(self, statement: LiteralString) -> sql.Composed:
        return sql.SQL(statement).format(table=table_of(self._options.table), durable=sql.SQL(DURABLE))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of PostgreSQL as those of a store."""
        try:
            yield
        except errors.UndefinedTable as error:
            statement = CREATE.format(table=self._options.table)
            raise PositionStoreError(
                f"{self._place} has no table {self._options.table}, and create is false: {statement}"
            ) from error
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            kind = PositionStoreError if is_refused(error) else PositionStoreUnavailable
            raise kind(f"the position store {self._place}: {text or type(error).__name__}") from error


def open_store(context: StoreContext) -> PostgresqlPositions:
    """Return the store of a database; it connects at the first use."""
    url, options = context.url, options_of(PostgresqlOptions, context.url)
    database = unquote(url.path).strip("/")
    if not database or "/" in database:
        raise invalid_setting("store", redacted(url), "postgresql://USER@HOST:PORT/DATABASE")
    place = DatabaseAddress(
        database,
        host_of(url),
        url.port,
        unquote(url.username or ""),
        options.sslmode,
        options.sslrootcert,
    )

    def login() -> dict[str, str]:
        return Credentials(options.credentials_file).some({"user": USER_VARIABLE, "password": PASSWORD_VARIABLE})

    login()  # a file that cannot be read is an error now

    def opened(ends_at: float) -> TimedConnection:
        limit_s = context.rw_timeout_s
        return connect(place, ends_at=ends_at, timeout_s=limit_s, application="forebay-positions", credentials=login())

    return PostgresqlPositions(opened, options, redacted(url), context.rw_timeout_s)
