"""Options of the PostgreSQL target; secrets come from the environment or a file instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from forebay.client.positions.options import Credentials
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import InvalidOption
from forebay.deliver.targets.options import TargetDescription, TargetOption
from forebay.postgresql import PASSWORD_VARIABLE, SSL_MODES, TABLE_NAME, USER_VARIABLE, DatabaseAddress, host_of

TARGET: Final = "postgresql"
Kind = TypeVar("Kind", bound=StrEnum)

TIMEOUT_S: Final = (0.1, 600.0)
NUMBER_MAX: Final = 1 << 30


class Rows(StrEnum):
    """Form of a row."""

    RECORD = "record"
    """One row per record: its position, event time, key, value and headers."""

    JSON = "json"
    """The fields of the record's JSON object, by the names of the columns."""


class Value(StrEnum):
    """Type of the column ``value`` of a table of records."""

    BYTEA = "bytea"
    TEXT = "text"
    JSONB = "jsonb"


class UnknownFields(StrEnum):
    """Treatment of a field that has no column."""

    REJECT = "reject"
    """The record becomes a dead letter."""

    IGNORE = "ignore"
    """The field is not written."""


_NAME: Final = "TABLE or SCHEMA.TABLE of a-z, 0-9 and _"
_COUNT: Final = f"1 to {NUMBER_MAX}"

DESCRIPTION: Final = TargetDescription(
    "Writes rows into PostgreSQL, each record exactly once.",
    (
        TargetOption("url", "text", None, "postgresql://USER@HOST:PORT/DATABASE, without a password", "Database."),
        TargetOption("table", "text", None, _NAME, "Table that rows are written to."),
        TargetOption("rows", "choice", "record", ", ".join(Rows), "Form of a row."),
        TargetOption(
            *("value", "choice", "bytea", ", ".join(Value)), "Type of the column `value` of a table of records."
        ),
        TargetOption("upsert_by", "text", "", "columns, with commas; for rows=json", "Unique key: replace the row."),
        TargetOption(
            *("unknown_fields", "choice", "reject", ", ".join(UnknownFields)), "Treatment of a field without a column."
        ),
        TargetOption("delivered_table", "text", "forebay_delivered", _NAME, "Table of the delivered offsets."),
        TargetOption("delivery", "text", "", "", "Name in that table; by default SINK/SUBSCRIPTION/TABLE."),
        TargetOption("create", "boolean", "true", "true, false", "Create missing tables."),
        TargetOption("batch_records", "number", "10000", _COUNT, "Maximum records per transaction."),
        TargetOption("batch_bytes", "size", str(8 << 20), _COUNT, "Maximum bytes per transaction."),
        TargetOption(
            *("timeout_s", "duration", "20", f"{TIMEOUT_S[0]:g} to {TIMEOUT_S[1]:g}"),
            "Time limit of a transaction, from connecting to the commit.",
        ),
        TargetOption("sslmode", "text", "", ", ".join(SSL_MODES), "Use of TLS, such as verify-full."),
        TargetOption("sslrootcert", "text", "", "a PEM file", "Trusted certificate authorities."),
        TargetOption(
            "credentials_file", "text", "", "", f"File with {USER_VARIABLE}=... and {PASSWORD_VARIABLE}=... lines."
        ),
    ),
    limits=f"up to {10_000:,} records and 8 MiB, see batch_records and batch_bytes",
)


_PORT: Final = 5_432
"""Default port of PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlSettings:
    """Settings of the PostgreSQL target."""

    address: DatabaseAddress
    table: str
    """Table that rows are written to: ``TABLE`` or ``SCHEMA.TABLE``."""

    rows: Rows = Rows.RECORD
    value: Value = Value.BYTEA
    upsert_by: tuple[str, ...] = ()
    """Columns of a unique key: a row replaces the one with the same key. Empty: rows are only inserted."""

    unknown_fields: UnknownFields = UnknownFields.REJECT
    delivered_table: str = "forebay_delivered"
    """Table of the delivered offsets, in the same database: both change in one transaction."""

    delivery: str = ""
    """Name of the delivery in that table; ``SINK/SUBSCRIPTION/TABLE`` by default."""

    create: bool = True
    """Create the table of deliveries, and with ``record`` the table of rows, where they are missing."""

    limits: BatchLimits = field(default_factory=lambda: BatchLimits(records_max=10_000, bytes_max=8 << 20))
    timeout_s: float = 20.0
    """Time limit of a batch, from connecting to the commit. Keep it below the sink's ack deadline."""

    credentials_file: str = ""

    @property
    def span_attributes(self) -> dict[str, str | int]:
        """Attributes of the span of a transaction; the server only where the address names it."""
        found: dict[str, str | int] = {
            "db.system.name": "postgresql",
            "db.namespace": self.address.database,
            "db.collection.name": self.table,
            "db.operation.name": "COPY",
        }
        if self.address.host:
            found |= {"server.address": self.address.host, "server.port": self.address.port or _PORT}
        return found

    @property
    def shown(self) -> str:
        """Database and table, for messages."""
        return f"{self.address.host or 'PGHOST'}/{self.address.database} table {self.table}"

    def credentials(self) -> dict[str, str]:
        """Return user and password, read at each connection so that they can be replaced."""
        return Credentials(self.credentials_file).some({"user": USER_VARIABLE, "password": PASSWORD_VARIABLE})


def settings_of(
    *,
    url: str,
    table: str,
    rows: str = "record",
    value: str = "bytea",
    upsert_by: str = "",
    unknown_fields: str = "reject",
    delivered_table: str = "forebay_delivered",
    delivery: str = "",
    create: str = "true",
    batch_records: str = "10000",
    batch_bytes: str = str(8 << 20),
    timeout_s: str = "20",
    sslmode: str = "",
    sslrootcert: str = "",
    credentials_file: str = "",
) -> PostgresqlSettings:
    """Parse the options. Raises `InvalidOption`."""
    for option, name in (("table", table), ("delivered_table", delivered_table)):
        if TABLE_NAME.fullmatch(name) is None:
            raise InvalidOption(TARGET, option, f"{name!r}: must be TABLE or SCHEMA.TABLE of a-z, 0-9 and _")
    upserted = tuple(part.strip() for part in upsert_by.split(",") if part.strip())
    form = _choice("rows", rows, Rows)
    if upserted and form is Rows.RECORD:
        raise InvalidOption(TARGET, "upsert_by", "is only for rows=json: records are unique by their position")
    return PostgresqlSettings(
        address=_address(url, sslmode, sslrootcert),
        table=table,
        rows=form,
        value=_choice("value", value, Value),
        upsert_by=upserted,
        unknown_fields=_choice("unknown_fields", unknown_fields, UnknownFields),
        delivered_table=delivered_table,
        delivery=delivery,
        create=_flag("create", create),
        limits=BatchLimits(_whole("batch_records", batch_records), _whole("batch_bytes", batch_bytes)),
        timeout_s=_seconds("timeout_s", timeout_s),
        credentials_file=credentials_file,
    )


def _address(url: str, sslmode: str, sslrootcert: str) -> DatabaseAddress:
    form = "must be postgresql://USER@HOST:PORT/DATABASE"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidOption(TARGET, "url", form) from None
    if parts.password is not None:
        raise InvalidOption(
            TARGET, "url", f"must not contain a password: set {PASSWORD_VARIABLE}, or name a credentials_file"
        )
    database = unquote(parts.path).strip("/")
    if sslmode and sslmode not in SSL_MODES:
        raise InvalidOption(TARGET, "sslmode", f"{sslmode!r}: must be one of {', '.join(SSL_MODES)}")
    if parts.scheme not in {"postgresql", "postgres"} or not database or "/" in database or parts.query:
        raise InvalidOption(TARGET, "url", form)
    return DatabaseAddress(database, host_of(parts), port, unquote(parts.username or ""), sslmode, sslrootcert)


def _choice(option: str, text: str, kind: type[Kind]) -> Kind:
    try:
        return kind(text)
    except ValueError:
        raise InvalidOption(TARGET, option, f"{text!r}: must be one of {', '.join(kind)}") from None


def _flag(option: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise InvalidOption(TARGET, option, f"{text!r}: must be true or false")
    return text == "true"


def _whole(option: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= NUMBER_MAX):
        raise InvalidOption(TARGET, option, f"{text!r}: must be an integer from 1 to {NUMBER_MAX}")
    return int(text)


def _seconds(option: str, text: str) -> float:
    low, high = TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not low <= seconds <= high:
        raise InvalidOption(TARGET, option, f"{text!r}: must be {low:g} to {high:g} seconds")
    return seconds
