"""Connection to PostgreSQL whose every operation has a time limit.

Host, user, password and TLS that the caller does not name come from the environment of libpq (``PGHOST``, ``PGUSER``,
``PGPASSWORD``, ``PGPASSFILE``, ``PGSSLMODE`` …).
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, unquote

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen

Result = TypeVar("Result")

TABLE_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
"""Names that need no quotes: ``TABLE`` or ``SCHEMA.TABLE``."""

USER_VARIABLE: Final = "PGUSER"
PASSWORD_VARIABLE: Final = "PGPASSWORD"

DURABLE: Final = (
    "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
)
"""Column of a statement that writes: its transaction is on the disk before it is confirmed.

Without, a crash of the server could lose what it has confirmed. It is set in each transaction because a pooler may give
each of them to another session of the server.
"""

SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""Uses of TLS that libpq knows."""

CONNECT_S_MIN: Final = 2
"""Least time limit of a connection that libpq knows, for each address."""

_PORT: Final = 5_432

_FATAL: Final = frozenset({"FATAL", "PANIC"})
"""Severities of the errors that end a session."""

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

    Of several addresses of a host, each gets an equal part of the time until ``ends_at``, at least `CONNECT_S_MIN`,
    and one part is left for the use of the connection. ``timeout_s`` is the time after which the system gives up a
    peer that does not answer. Raises ``psycopg.Error``.
    """
    attempts = _attempts(place)
    addresses = attempts.get("host", place.host).count(",") + 1
    parts = addresses + 1 if addresses > 1 else 1
    connection = TimedConnection.connect(
        dbname=place.database,
        connect_timeout=max(CONNECT_S_MIN, int((ends_at - time.monotonic()) / parts)),
        tcp_user_timeout=int(timeout_s * 1000),
        client_encoding="utf8",  # without, a database of the encoding SQL_ASCII answers bytes for text
        application_name=application,
        autocommit=True,
        prepare_threshold=None,  # a pooler may give each statement to another connection of the server
        **{**credentials, **place.named(), **attempts},
    )
    connection.ends_at = ends_at
    return connection


def _attempts(place: DatabaseAddress) -> dict[str, str]:
    """Return host and address of each attempt, with commas; empty where there is nothing to resolve.

    psycopg would resolve the host itself, and give each address the whole time limit.
    """
    host = place.host or os.environ.get("PGHOST", "")
    if not host or host.startswith("/") or "," in host or os.environ.get("PGHOSTADDR"):
        return {}
    try:
        found = socket.getaddrinfo(host, place.port or _PORT, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise errors.OperationalError(f"failed to resolve host {host!r}: {error}") from error
    return {"host": ",".join([host] * len(found)), "hostaddr": ",".join(str(one[4][0]) for one in found)}


def host_of(url: SplitResult) -> str:
    """Return the host of a URL: a name, an address, or the folder of a socket (``%2Frun`` is ``/run``)."""
    host = url.netloc.rpartition("@")[2]
    return unquote(host.partition(":")[0] if host.startswith("%") else url.hostname or "")


def is_of_session(error: psycopg.Error) -> bool:
    """Return whether an error is one of the session: it has ended, or its server became read-only.

    Another session may succeed at once, unless the time is over. What happened to one session mostly did so to all.
    """
    if error.sqlstate is None:
        return isinstance(error, errors.OperationalError | errors.InterfaceError)
    return error.diag.severity_nonlocalized in _FATAL or isinstance(error, errors.ReadOnlySqlTransaction)


def is_refused(error: psycopg.Error) -> bool:
    """Return whether an error needs other settings, and does not pass by itself."""
    return isinstance(error, _REFUSED) or _REFUSED_AT_LOGIN.search(" ".join(str(error).split())) is not None


def table_of(name: str) -> sql.Identifier:
    """Return the identifier of ``TABLE`` or ``SCHEMA.TABLE``."""
    return sql.Identifier(*name.split("."))
