"""PostgreSQL target: rows of a table, each record exactly once.

A batch is one transaction: its rows, by COPY, and the range of its offsets in a table of deliveries. A batch that is
sent again, because its answer or the ack was lost, finds its range there and writes nothing. The ranges are a
multirange per partition, so that records that are redelivered behind later ones (RELAXED order) are distinguished from
those that were written. The row of the partition is locked, so of two deliverers the second one sees what the first
wrote.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from inspect import signature
from threading import Lock
from typing import Any, Final, LiteralString

import psycopg
from opentelemetry.trace import TracerProvider
from psycopg import errors, sql
from psycopg.types.range import Range

from forebay.deliver import classification
from forebay.deliver.batch import Batch, BatchLimits
from forebay.deliver.errors import InvalidOption, TargetClosed
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.deliver.targets.client_span import client_span, failed
from forebay.deliver.targets.options import described
from forebay.deliver.targets.postgresql.rows import FieldUnknown, RowInvalid, Rows, json_rows, offsets_of, record_rows
from forebay.deliver.targets.postgresql.settings import (
    DESCRIPTION,
    TARGET,
    PostgresqlSettings,
    UnknownFields,
    settings_of,
)
from forebay.deliver.targets.postgresql.settings import Rows as Form
from forebay.deliver.targets.target import TargetContext
from forebay.postgresql import TimedConnection, connect, is_refused, table_of

VERSION_MIN: Final = 140_000
"""First version with multiranges."""

_REJECTED: Final = (errors.DataError, errors.IntegrityError, errors.ProgramLimitExceeded)
"""Errors that are the fault of a record. All others are retried: a wrong guess then costs no record."""

_CREATED: Final = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)
"""Errors of CREATE TABLE IF NOT EXISTS beside another one: of the name, of the table and of its type."""

_COLUMN: Final = re.compile(r"column ([^:\s]{1,63})")

_CREATE_DELIVERED: Final = (
    "CREATE TABLE IF NOT EXISTS {delivered} (delivery text, incarnation text, partition int, "
    "offsets int8multirange NOT NULL DEFAULT '{{}}', PRIMARY KEY (delivery, incarnation, partition))"
)
_CREATE_RECORDS: Final = (
    "CREATE TABLE IF NOT EXISTS {table} (incarnation text, partition int, record_offset bigint, "
    "event_time timestamptz, key bytea, value {value}, headers jsonb, "
    "PRIMARY KEY (incarnation, partition, record_offset))"
)
_BEGIN: Final = "INSERT INTO {delivered} (delivery, incarnation, partition) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_OVERLAP: Final = (
    "SELECT offsets * int8multirange(int8range(%s, %s)) FROM {delivered} "
    "WHERE (delivery, incarnation, partition) = (%s, %s, %s) FOR UPDATE"
)
_NOTE: Final = (
    "UPDATE {delivered} SET offsets = offsets + int8multirange(int8range(%s, %s)) "
    "WHERE (delivery, incarnation, partition) = (%s, %s, %s)"
)
_COLUMNS: Final = (
    "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
    "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
)


class PostgresqlTarget:
    """A `forebay.deliver.Target` that writes rows to PostgreSQL."""

    def __init__(self, settings: PostgresqlSettings, *, tracers: TracerProvider | None = None) -> None:
        self._settings = settings
        self._tracers = tracers
        self._delivery = settings.delivery
        self._idle: list[TimedConnection] = []
        self._lock = Lock()
        """Protects the fields above and below."""
        self._types: dict[str, str] | None = None
        """Type of each column of the table, for rows of JSON."""
        self._closed = False

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Check the credentials file; the database is connected by the first `send`."""
        self._settings.credentials()
        self._delivery = self._delivery or f"{context.sink}/{context.subscription}/{self._settings.table}"
        return self._settings.limits

    def send(self, batch: Batch) -> Outcome:
        """Write the rows of a batch that are not written yet, and note its offsets, in one transaction."""
        settings = self._settings
        ends_at = time.monotonic() + settings.timeout_s
        connection: TimedConnection | None = None
        attributes = {**settings.span_attributes, "db.operation.batch.size": len(batch)}
        with client_span(f"COPY {settings.table}", attributes, self._tracers) as span:
            try:
                connection = self._acquire(ends_at)
                self._write(connection, batch)
            except RowInvalid as invalid:
                failed(span, type(invalid).__name__)
                self._release(connection)
                return Reject(classification.shorten(str(invalid)), exact=len(batch) == 1)
            except psycopg.Error as error:
                if error.sqlstate:
                    span.set_attribute("db.response.status_code", error.sqlstate)
                failed(span, error.sqlstate or type(error).__name__)
                return self._failed(connection, error, batch)
        self._release(connection)
        return Delivered()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        for connection in idle:
            connection.close()

    def _write(self, connection: TimedConnection, batch: Batch, *, may_create: bool = True) -> None:
        place = (self._delivery, batch.incarnation, batch.partition)
        first, end = batch.first_offset, batch.last_offset + 1
        try:
            with connection.transaction():
                found = connection.execute(self._sql(_OVERLAP), (first, end, *place)).fetchone()
                if found is None:
                    connection.execute(self._sql(_BEGIN), place)
                    found = connection.execute(self._sql(_OVERLAP), (first, end, *place)).fetchone()
                assert found is not None, "the row was inserted, or found"
                rest = offsets_of(batch, [_bounds(one) for one in found[0]])
                if rest is None:
                    return
                for rows in self._rows(connection, rest):
                    self._copy(connection, rows)
                connection.execute(self._sql(_NOTE), (first, end, *place))
        except errors.UndefinedTable:
            if not (self._settings.create and may_create):
                raise
            self._create(connection)
            # Also if another thread has just created them: its first batch must not back off.
            self._write(connection, batch, may_create=False)

    def _rows(self, connection: TimedConnection, batch: Batch) -> list[Rows]:
        if self._settings.rows is Form.RECORD:
            return list(record_rows(batch, self._settings.value))
        if self._types is not None:
            with suppress(FieldUnknown):  # a column may have been added
                return list(json_rows(batch, self._types, UnknownFields.REJECT))
        found = connection.execute(_COLUMNS, (self._settings.table,)).fetchall()
        types = self._types = {str(name): str(kind) for name, kind in found}
        return list(json_rows(batch, types, self._settings.unknown_fields))

    def _copy(self, connection: TimedConnection, rows: Rows) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, rows.columns))
        into: sql.Composable = table_of(self._settings.table)
        keys = self._settings.upsert_by
        if keys:
            missing = [name for name in keys if name not in rows.columns]
            if missing:
                raise RowInvalid(f"the field {missing[0]!r} of the key is missing")
            into = sql.Identifier("forebay_batch")
            connection.execute(
                self._sql(
                    "CREATE TEMP TABLE IF NOT EXISTS forebay_batch"
                    " (LIKE {table} INCLUDING DEFAULTS INCLUDING IDENTITY) ON COMMIT DROP"
                )
            )
            connection.execute("ALTER TABLE forebay_batch ADD COLUMN IF NOT EXISTS forebay_number bigserial")
        statement = sql.SQL("COPY {into} ({columns}) FROM STDIN").format(into=into, columns=columns)
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(rows.lines)
        if keys:
            self._upsert(connection, rows.columns, columns)

    def _upsert(self, connection: TimedConnection, names: tuple[str, ...], columns: sql.Composed) -> None:
        """Move the rows of the temporary table; of several with one key, the last one counts."""
        keys = sql.SQL(", ").join(map(sql.Identifier, self._settings.upsert_by))
        changed = [sql.Identifier(name) for name in names if name not in self._settings.upsert_by]
        action: sql.Composable = sql.SQL("NOTHING")
        if changed:
            pairs = (sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in changed)
            action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs))
        connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM"
                " (SELECT DISTINCT ON ({keys}) * FROM forebay_batch ORDER BY {keys}, forebay_number DESC) AS newest"
                " ON CONFLICT ({keys}) DO {action}"
            ).format(table=table_of(self._settings.table), columns=columns, keys=keys, action=action)
        )
        connection.execute("TRUNCATE forebay_batch")

    def _create(self, connection: TimedConnection) -> None:
        """Create the missing tables."""
        with suppress(*_CREATED):  # another deliverer creates it at the same time
            connection.execute(self._sql(_CREATE_DELIVERED))
        if self._settings.rows is Form.RECORD:
            with suppress(*_CREATED):
                connection.execute(self._sql(_CREATE_RECORDS))

    def _acquire(self, ends_at: float) -> TimedConnection:
        """Return an idle connection, or a new one."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            settings = self._settings
            connection = connect(
                settings.address,
                ends_at=ends_at,
                timeout_s=settings.timeout_s,
                application="forebay-deliver",
                credentials=settings.credentials(),
            )
            if connection.info.server_version < VERSION_MIN:
                found = connection.info.server_version // 10_000
                connection.close()
                raise TargetClosed(f"PostgreSQL {found} has no multiranges: version 14 or newer is needed")
        connection.ends_at = ends_at
        return connection

    def _release(self, connection: TimedConnection | None) -> None:
        with self._lock:
            if connection is not None and not connection.closed and not self._closed:
                self._idle.append(connection)
                return
        if connection is not None:
            connection.close()

    def _failed(self, connection: TimedConnection | None, error: psycopg.Error, batch: Batch) -> Outcome:
        """Return the outcome of an error; the reason quotes no text of it, which may quote a record."""
        with self._lock:
            self._types = None  # the table may have changed
        if connection is not None:
            # After a time-out, the answer would be taken for that of the next statement.
            if isinstance(error, errors.OperationalError | errors.InterfaceError):
                connection.close()
                if error.sqlstate is None or isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
                    self._drop_idle()
            self._release(connection)
        reason = _reason(error, self._settings.shown)
        if isinstance(error, _REJECTED):
            return Reject(reason, exact=len(batch) == 1)
        if connection is None and is_refused(error):
            reason = f"{reason}: the login was refused"
        return Retry(reason)

    def _drop_idle(self) -> None:
        """Close the idle connections: if the server has restarted, each of them would fail a batch."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _sql(self, statement: LiteralString) -> sql.Composed:
        settings = self._settings
        return sql.SQL(statement).format(
            table=table_of(settings.table),
            delivered=table_of(settings.delivered_table),
            value=sql.SQL(settings.value.value),
        )


def _reason(error: psycopg.Error, place: str) -> str:
    diagnosis = error.diag
    if error.sqlstate is None and isinstance(error, errors.OperationalError | errors.InterfaceError):
        return classification.transport(error, place=place).reason  # of the connection: it quotes no record
    where = _COLUMN.search(diagnosis.context or "")
    parts = [
        f"{type(error).__name__}{f' ({error.sqlstate})' if error.sqlstate else ''}",
        f"column {diagnosis.column_name or (where[1] if where else '')}",
        f"constraint {diagnosis.constraint_name or ''}",
    ]
    return classification.shorten(f"{' '.join(part for part in parts if not part.endswith(' '))} ({place})")


def _bounds(found: Range[Any]) -> tuple[int, int]:
    assert isinstance(found.lower, int), "an intersection with a bounded range"
    assert isinstance(found.upper, int), "an intersection with a bounded range"
    return found.lower, found.upper


@described(DESCRIPTION)
def postgresql_target(**options: str) -> PostgresqlTarget:
    """Build the target from command-line options, those of `settings_of`."""
    try:
        signature(settings_of).bind(**options)
    except TypeError as error:
        raise InvalidOption(TARGET, ", ".join(options) or "(none)", str(error)) from error
    return PostgresqlTarget(settings_of(**options))
