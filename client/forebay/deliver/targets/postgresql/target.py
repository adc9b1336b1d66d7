"""PostgreSQL target: rows of a table, each record exactly once.

A batch is one transaction: its rows, by COPY, and the range of its offsets in a table of deliveries. A batch that is
sent again, because its answer or the ack was lost, finds its range there and writes nothing. The ranges are a
multirange per partition, so that records that are redelivered after later ones (RELAXED order) are distinguished from
those that were written. The row of the partition is locked, so of two deliverers the second one sees what the first
wrote.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from inspect import signature
from itertools import groupby
from operator import attrgetter
from threading import Lock
from typing import Any, Final, LiteralString

import psycopg
from opentelemetry.trace import TracerProvider
from psycopg import errors, sql
from psycopg.types.range import Range

from forebay.client.errors import PositionStoreError
from forebay.deliver import classification
from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import InvalidOption, TargetClosed
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.deliver.targets.client_span import client_span, failed
from forebay.deliver.targets.options import described
from forebay.deliver.targets.postgresql.check import problems, read
from forebay.deliver.targets.postgresql.field_rows import field_rows
from forebay.deliver.targets.postgresql.rows import FieldUnknown, RowInvalid, Rows, record_rows, remaining
from forebay.deliver.targets.postgresql.settings import (
    DESCRIPTION,
    TARGET,
    PostgresqlSettings,
    UnknownFields,
    settings_of,
)
from forebay.deliver.targets.postgresql.settings import Rows as Form
from forebay.deliver.targets.postgresql.table import Table
from forebay.deliver.targets.target import TargetContext
from forebay.postgresql import DURABLE, TimedConnection, connect, is_of_session, is_refused, table_of

VERSION_MIN: Final = 140_000
"""First version with multiranges."""

_REJECTED: Final = (errors.DataError, errors.IntegrityError)
"""Errors that are the fault of a record. All others are retried: a wrong guess then costs no record."""

_LIMIT_EXCEEDED: Final = "54"
"""Class of SQLSTATE of a record that exceeds a limit of the server. psycopg has no common base for it."""

_ABSENT: Final = (errors.UndefinedTable, errors.UndefinedColumn)
"""Errors of a table that is not there yet, or was changed."""

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
    "SELECT offsets * int8multirange(int8range(%s, %s)), {durable} FROM {delivered} "
    "WHERE (delivery, incarnation, partition) = (%s, %s, %s) FOR UPDATE"
)
_NOTE: Final = (
    "UPDATE {delivered} SET offsets = offsets + int8multirange(int8range(%s, %s)) "
    "WHERE (delivery, incarnation, partition) = (%s, %s, %s)"
)
_STORED: Final = (
    "SELECT range_agg(int8range(record_offset, record_offset + 1)) FROM {table} "
    "WHERE (incarnation, partition) = (%s, %s) AND record_offset >= %s AND record_offset < %s"
)
_NULLS_EQUAL: Final = (
    "SELECT EXISTS (SELECT FROM pg_index AS one WHERE indrelid = %s::regclass AND indisunique "
    "AND to_jsonb(one) ->> 'indnullsnotdistinct' = 'true' "  # the column is there since PostgreSQL 15
    "AND indexprs IS NULL AND indpred IS NULL "
    "AND (SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute WHERE attrelid = indrelid "
    "AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) = %s)"
)
_COLUMNS: Final = (
    "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
    "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
)


class _ColumnMissing(Exception):
    """A column of the key is no column of the table."""


class PostgresqlTarget:
    """A `forebay.deliver.Target` that writes rows to PostgreSQL."""

    def __init__(self, settings: PostgresqlSettings, *, tracers: TracerProvider | None = None) -> None:
        self._settings = settings
        self._tracers = tracers
        self._delivery = settings.delivery
        self._idle: list[TimedConnection] = []
        self._lock = Lock()
        """Protects the idle connections, and whether the target is closed."""
        self._table: Table | None = None
        """Columns of the table, for rows of JSON; None before they are read."""
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
        attributes = {**settings.span_attributes, "db.operation.batch.size": len(batch)}
        with client_span(f"COPY {settings.table}", attributes, self._tracers) as span:
            try:
                self._deliver(batch, ends_at)
            except RowInvalid as invalid:
                failed(span, type(invalid).__name__)
                return Reject(classification.shorten(str(invalid)), exact=len(batch) == 1)
            except (_ColumnMissing, PositionStoreError) as error:  # of the credentials file; neither quotes a value
                failed(span, type(error).__name__)
                return Retry(classification.shorten(f"{error} ({settings.shown})"))
            except psycopg.Error as error:
                if error.sqlstate:
                    span.set_attribute("db.response.status_code", error.sqlstate)
                failed(span, error.sqlstate or type(error).__name__)
                return self._failed(error, batch)
        return Delivered()

    def check(self) -> str:
        """Connect, and return the causes for which a delivery would fail, within ``timeout_s``."""
        settings = self._settings
        try:
            with closing(self._connected(time.monotonic() + settings.timeout_s)) as connection:
                found = problems(read(connection, settings), settings)
        except (TargetClosed, PositionStoreError) as error:  # of the version or of the credentials file
            found = [str(error)]
        except psycopg.Error as error:
            if not error.diag.message_primary:
                return self._reason(error)
            found = [f"{type(error).__name__} ({error.sqlstate}): {error.diag.message_primary}"]  # no record was sent
        return classification.shorten(f"{'; '.join(found)} ({settings.shown})") if found else ""

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        for connection in idle:
            connection.close()

    def _deliver(self, batch: Batch, ends_at: float) -> None:
        """Write a batch over an idle connection, or over a new one where that turns out to be of no use."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                self._use(connection, batch, ends_at)
            except psycopg.Error as error:
                # A batch may be written again, even if its connection was lost during the commit.
                if not is_of_session(error) or time.monotonic() >= ends_at:
                    raise
            else:
                return
        self._use(self._connected(ends_at), batch, ends_at)

    def _use(self, connection: TimedConnection, batch: Batch, ends_at: float) -> None:
        """Write a batch over a connection, and keep the connection if it is sound."""
        connection.ends_at = ends_at
        try:
            self._write(connection, batch)
        except psycopg.Error as error:
            # After a time-out, the answer would be taken for that of the next statement.
            if not (_is_rejected(error) or isinstance(error, _ABSENT)):
                connection.close()
            if is_of_session(error):
                self._drop_idle()
            raise
        finally:
            self._release(connection)

    def _write(self, connection: TimedConnection, batch: Batch) -> None:
        try:
            self._write_rest(connection, batch)
        except errors.UndefinedTable:
            if not self._settings.create:
                raise
            self._create(connection)
            # Also if another thread has just created them: its first batch must not back off.
            self._write_rest(connection, batch)

    def _write_rest(self, connection: TimedConnection, batch: Batch) -> None:
        """Write the records of a batch that are not written yet.

        A row of a table of records is found by its position. Another delivery may have written it; it then stays as it
        is. The table is searched only after a violated key, so that other batches do not wait for it.
        """
        stored: list[tuple[int, int]] = []
        while True:
            try:
                self._transact(connection, batch, stored)
            except errors.UniqueViolation as violated:
                try:
                    found = self._stored(connection, batch) if self._settings.rows is Form.RECORD else []
                except errors.InsufficientPrivilege:  # the role may insert only
                    raise violated from None
                if found == stored:  # it is another key that was violated
                    raise
                stored = found
            else:
                return

    def _transact(self, connection: TimedConnection, batch: Batch, stored: list[tuple[int, int]]) -> None:
        """Write the records that are neither delivered nor in the ranges ``stored``, and note all of them."""
        place = (self._delivery, batch.incarnation, batch.partition)
        first, end = batch.first_offset, batch.last_offset + 1
        with connection.transaction():
            found = connection.execute(self._sql(_OVERLAP), (first, end, *place)).fetchone()
            if found is None:
                connection.execute(self._sql(_BEGIN), place)
                found = connection.execute(self._sql(_OVERLAP), (first, end, *place)).fetchone()
            assert found is not None, "the row was inserted, or found"
            rest = remaining(batch, _ranges(found[0]))
            if not rest:
                return
            missing = [part for one in rest for part in remaining(one, stored)]
            rows = [found for part in missing for found in self._rows(connection, part)]
            for columns, run in groupby(rows, attrgetter("columns")):
                self._copy(connection, columns, run)
            connection.execute(self._sql(_NOTE), (first, end, *place))

    def _stored(self, connection: TimedConnection, batch: Batch) -> list[tuple[int, int]]:
        """Return the offsets of a batch that are in the table of records, as ranges ``[first, end)``."""
        place = (batch.incarnation, batch.partition, batch.first_offset, batch.last_offset + 1)
        found = connection.execute(self._sql(_STORED), place).fetchone()
        return _ranges(found[0] or ()) if found is not None else []

    def _rows(self, connection: TimedConnection, batch: Batch) -> list[Rows]:
        settings = self._settings
        if settings.rows is Form.RECORD:
            return list(record_rows(batch, settings.value))
        table = self._table  # another thread may forget it meanwhile
        if table is not None:
            with suppress(FieldUnknown):  # a column may have been added
                return list(field_rows(batch, table, UnknownFields.REJECT))
        table = self._table = self._read_table(connection)
        return list(field_rows(batch, table, settings.unknown_fields))

    def _read_table(self, connection: TimedConnection) -> Table:
        """Return the columns of the table. Raises `_ColumnMissing`."""
        settings = self._settings
        rows = connection.execute(_COLUMNS, (settings.table,)).fetchall()
        types = {str(name): str(kind) for name, kind in rows}
        for name in settings.upsert_by:
            if name not in types:
                raise _ColumnMissing(f"the table has no column {name[:60]!r} for upsert_by")
        if not settings.upsert_by:
            return Table(types)
        found = connection.execute(_NULLS_EQUAL, (settings.table, sorted(settings.upsert_by))).fetchone()
        return Table(types, settings.upsert_by, nulls_equal=found is not None and bool(found[0]))

    def _copy(self, connection: TimedConnection, names: tuple[str, ...], run: Iterable[Rows]) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        into: sql.Composable = table_of(self._settings.table)
        keys = self._settings.upsert_by
        if keys:
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
            for rows in run:
                copy.write(rows.lines)
        if keys:
            self._upsert(connection, names, columns)

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

    def _connected(self, ends_at: float) -> TimedConnection:
        """Return a new connection."""
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
        return connection

    def _release(self, connection: TimedConnection) -> None:
        with self._lock:
            if not connection.closed and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _failed(self, error: psycopg.Error, batch: Batch) -> Outcome:
        """Return the outcome of an error; the reason quotes no text of it, which may quote a record."""
        self._table = None  # it may have changed
        reason = self._reason(error)
        return Reject(reason, exact=len(batch) == 1) if _is_rejected(error) else Retry(reason)

    def _reason(self, error: psycopg.Error) -> str:
        reason = _reason(error, self._settings.shown)
        if error.sqlstate is None and is_refused(error) and not _is_rejected(error):  # errors at the login have none
            return f"{reason}: the login was refused"
        return reason

    def _drop_idle(self) -> None:
        """Close the idle connections: what ended one session, or made it useless, mostly did so to the others."""
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
            durable=sql.SQL(DURABLE),
        )


def _is_rejected(error: psycopg.Error) -> bool:
    return isinstance(error, _REJECTED) or (error.sqlstate or "").startswith(_LIMIT_EXCEEDED)


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


def _ranges(found: Iterable[Range[Any]]) -> list[tuple[int, int]]:
    """Return the ranges ``[first, end)`` of a multirange."""
    return [_bounds(one) for one in found]


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
