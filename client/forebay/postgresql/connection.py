"""Connection to PostgreSQL whose every operation has a time limit.

Host, user, password and TLS that the caller does not name come from the environment of libpq (``PGHOST``, ``PGUSER``,
``PGPASSWORD``, ``PGPASSFILE``, ``PGSSLMODE`` …).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen

Result = TypeVar("Result")

TABLE_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
"""Names that need no quotes: ``TABLE`` or ``SCHEMA.TABLE``."""

USER_VARIABLE: Final = "PGUSER"
PASSWORD_VARIABLE: Final = "PGPASSWORD"

CONNECT_S_MIN: Final = 2
"""Least time limit of a connection that libpq knows."""

_REFUSED: Final = (
    errors.InvalidAuthorizationSpecification,
    errors.InvalidPassword,
    errors.InvalidCatalogName,
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFile,
    errors.ReadOnlySqlTransaction,
    errors.ProgrammingError,
    errors.DataError,
    errors.NotSupportedError,
)
_REFUSED_AT_LOGIN: Final = re.compile(
    r"password authentication failed|no password supplied|pg_hba\.conf|does not exist|permission denied"
    r"|authentication failed|not permitted to log in|certificate|invalid sslmode|server does not support SSL"
)
"""Refusals at the login, of which libpq reports only the text."""


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Database to connect to."""

    database: str
    host: str = ""
    port: int | None = None
    user: str = ""
    sslmode: str = ""
    sslrootcert: str = ""

    def named(self) -> dict[str, Any]:
        """Return the arguments of libpq that are set."""
        given = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "sslmode": self.sslmode,
            "sslrootcert": self.sslrootcert,
        }
        return {name: value for name, value in given.items() if value}


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Connection whose every operation has a time limit, also against a server that stopped answering."""

    ends_at: float | None = None
    """Time at which the operation in progress fails, on the monotonic clock."""

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        """See ``psycopg.Connection``."""
        if timeout is None and self.ends_at is not None:
            timeout = max(0.001, self.ends_at - time.monotonic())
        return super().wait(gen, interval, timeout)


def connect(
    place: DatabaseAddress, *, ends_at: float, timeout_s: float, application: str, credentials: Mapping[str, str]
) -> TimedConnection:
    """Connect; ``credentials`` are ``user`` and ``password`` where the place names none.

    ``timeout_s`` is the time after which the system gives up a peer that does not answer. Raises ``psycopg.Error``.
    """
    connection = TimedConnection.connect(
        dbname=place.database,
        connect_timeout=max(CONNECT_S_MIN, int(ends_at - time.monotonic())),
        tcp_user_timeout=int(timeout_s * 1000),
        client_encoding="utf8",  # without, a database of the encoding SQL_ASCII answers bytes for text
        application_name=application,
        autocommit=True,
        prepare_threshold=None,  # a pooler may give each statement to another connection of the server
        **{**credentials, **place.named()},
    )
    connection.ends_at = ends_at
    # Without the sync at commit, a crash of the server could lose what it has confirmed.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    return connection


def is_refused(error: psycopg.Error) -> bool:
    """Return whether an error needs other settings, and does not pass by itself."""
    return isinstance(error, _REFUSED) or _REFUSED_AT_LOGIN.search(" ".join(str(error).split())) is not None


def table_of(name: str) -> sql.Identifier:
    """Return the identifier of ``TABLE`` or ``SCHEMA.TABLE``."""
    return sql.Identifier(*name.split("."))
