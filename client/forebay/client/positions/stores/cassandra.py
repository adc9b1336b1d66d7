"""Store in Apache Cassandra: ``cassandra://HOST,HOST:PORT/KEYSPACE``.

One row per key, written by lightweight transactions. Each write takes a random version, so a write whose answer was
lost is recognised as one's own. Reads and conditions are serial over all data centres.
"""

from __future__ import annotations

import re
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    ProtocolVersion,
    RequestValidationException,
    UnresolvableContactPoints,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, RoundRobinPolicy
from cassandra.query import SimpleStatement

from forebay.client.errors import PositionConflict, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.options import Credentials, options_of
from forebay.client.positions.store import StoreContext, Versioned, redacted
from forebay.client.settings import check, invalid_setting

PORT: Final = 9042
RECONNECT_S: Final = 1.0
"""Delay between tries to reach a host that is down."""

IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
HOSTS: Final = re.compile(
    r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(,([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]))*(:(?P<port>\d+))?"
)

_MISSING: Final = re.compile(r"(table|keyspace|columnfamily) \S+ does not exist|unconfigured table", re.IGNORECASE)
_REFUSED: Final = (RequestValidationException, AuthenticationFailed)


@dataclass(frozen=True, slots=True)
class CassandraOptions:
    """Options of the URL."""

    table: str = "forebay_positions"
    """Table of the keyspace. Lower case letters, digits and ``_``."""

    create: bool = True
    """Create keyspace and table where they are missing.

    With ``false``, a missing one is an error that shows the statement. Create them beforehand where many consumers
    start at the same time: Cassandra may confuse tables that are created at once.
    """

    replication_factor: int = 3
    """Copies of a row in a keyspace that is created; an existing keyspace keeps its own."""

    datacenter: str = ""
    """Data centre of the consumer: its hosts are used, and a keyspace that is created is kept there.

    Without, all hosts are used, and a keyspace is created with ``SimpleStrategy``.
    """

    tls: bool = False
    """Connect by TLS."""

    ca_file: str = ""
    """File of the certificate authorities; those of the system by default."""

    credentials_file: str = ""
    """File of lines ``NAME=value`` with ``CASSANDRA_USERNAME`` and ``CASSANDRA_PASSWORD``.

    The environment by default.
    """

    def __post_init__(self) -> None:
        """Reject what would need quotes, and replication without copies."""
        if IDENTIFIER.fullmatch(self.table) is None:
            raise invalid_setting("store.table", repr(self.table), "lower case letters, digits and '_', at most 48")
        check("store.replication_factor", self.replication_factor, 1, 100)
        if re.fullmatch(r"[A-Za-z0-9_.-]*", self.datacenter) is None:
            raise invalid_setting("store.datacenter", repr(self.datacenter), "letters, digits, '_', '.' and '-'")


class CassandraPositions:
    """Documents as rows of a table. Connects at the first use."""

    def __init__(
        self,
        connect: Callable[[float], Cluster],
        keyspace: str,
        options: CassandraOptions,
        place: str,
        rw_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._keyspace = keyspace
        self._table = f"{keyspace}.{options.table}"
        self._options = options
        self._place = place
        self._rw_timeout_s = rw_timeout_s
        self._clock = clock
        self._cluster: Cluster | None = None
        self._session: Session | None = None

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        rows = self._run("SELECT document, version FROM {table} WHERE key = %s", key, level=ConsistencyLevel.SERIAL)
        return Versioned(bytes(rows[0].document), str(rows[0].version)) if rows else None

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        version = uuid.uuid4().hex
        if expected is None:
            [answer] = self._run(
                "INSERT INTO {table} (key, document, version) VALUES (%s, %s, %s) IF NOT EXISTS",
                *(key, document, version),
            )
        else:
            [answer] = self._run(
                "UPDATE {table} SET document = %s, version = %s WHERE key = %s IF version = %s",
                *(document, version, key, expected),
            )
        # The driver may have sent this write to a second host after the first one had executed it.
        if not answer.applied and getattr(answer, "version", None) != version:
            raise PositionConflict(f"the position {key} was written concurrently", facts={"key": key})
        return version

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        self._run("DELETE FROM {table} WHERE key = %s IF EXISTS", key)

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``; reads the keys of the whole table."""
        keys = [str(row.key) for row in self._run("SELECT key FROM {table}")]
        return iter(sorted(key for key in keys if key.startswith(prefix)))

    def close(self) -> None:
        """See ``PositionStore``."""
        cluster, self._cluster, self._session = self._cluster, None, None
        if cluster is not None:
            cluster.shutdown()

    def __repr__(self) -> str:
        """Return the place, never credentials."""
        return f"<CassandraPositions {self._place} table={self._options.table}>"

    # -- statements

    def _run(self, statement: str, *arguments: str | bytes, level: int = ConsistencyLevel.QUORUM) -> Any:
        ends_at = self._clock() + self._rw_timeout_s
        with self._failures():
            try:
                return self._execute(statement, arguments, level, ends_at)
            except RequestValidationException as error:
                if not self._options.create or _MISSING.search(str(error)) is None:
                    raise
            for create in self.creation():
                self._execute(create, (), ConsistencyLevel.QUORUM, ends_at)
            return self._execute(statement, arguments, level, ends_at)

    def _execute(self, statement: str, arguments: tuple[str | bytes, ...], level: int, ends_at: float) -> Any:
        found = SimpleStatement(statement.replace("{table}", self._table), consistency_level=level)
        session = self._opened(ends_at)
        return session.execute(found, arguments or None, timeout=max(0.05, ends_at - self._clock())).all()

    def _opened(self, ends_at: float) -> Session:
        if self._session is None:
            self._cluster = self._connect(ends_at - self._clock())
            try:
                self._session = self._cluster.connect()
            finally:
                if self._session is None:
                    self.close()
        return self._session

    def creation(self) -> tuple[str, str]:
        """Return the statements that create keyspace and table."""
        options = self._options
        kind, name = ("NetworkTopologyStrategy", options.datacenter) if options.datacenter else ("SimpleStrategy", "")
        return (
            f"CREATE KEYSPACE IF NOT EXISTS {self._keyspace} WITH replication ="
            f" {{'class': '{kind}', '{name or 'replication_factor'}': {options.replication_factor}}}",
            f"CREATE TABLE IF NOT EXISTS {self._table} (key text PRIMARY KEY, document blob, version text)",
        )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of the driver as those of a store."""
        try:
            yield
        except NoHostAvailable as error:
            causes = list(error.errors.values()) if isinstance(error.errors, dict) else []
            refused = next((one for one in causes if isinstance(one, _REFUSED)), None)
            raise self._failure(refused or next(iter(causes), error), is_refused=refused is not None) from error
        except RequestValidationException as error:
            if _MISSING.search(str(error)) is not None:
                problem = f"{self._table} is missing, and create is false: {'; '.join(self.creation())}"
                raise PositionStoreError(f"the position store {self._place}: {problem}") from error
            raise self._failure(error, is_refused=True) from error
        except AuthenticationFailed as error:
            raise self._failure(error, is_refused=True) from error
        except (DriverException, ConnectionException, OperationTimedOut, UnresolvableContactPoints, OSError) as error:
            raise self._failure(error, is_refused=False) from error

    def _failure(self, error: Exception, *, is_refused: bool) -> PositionStoreError:
        kind = PositionStoreError if is_refused else PositionStoreUnavailable
        text = " ".join(str(error).split())
        return kind(f"the position store {self._place}: {text or type(error).__name__}")


def open_store(context: StoreContext) -> CassandraPositions:
    """Return the store of a keyspace; it connects at the first use."""
    url, options = context.url, options_of(CassandraOptions, context.url)
    keyspace, hosts = url.path.strip("/"), HOSTS.fullmatch(url.netloc)
    if hosts is None or IDENTIFIER.fullmatch(keyspace) is None:
        raise invalid_setting("store", redacted(url), "cassandra://HOST,HOST:PORT/KEYSPACE without a user")
    names = [name.strip("[]") for name in url.netloc.removesuffix(f":{hosts['port']}").split(",")]
    variables = {"username": "CASSANDRA_USERNAME", "password": "CASSANDRA_PASSWORD"}
    Credentials(options.credentials_file)  # a file that cannot be read is an error now

    def connect(within_s: float) -> Cluster:
        datacenter = options.datacenter
        policy = DCAwareRoundRobinPolicy(datacenter) if datacenter else RoundRobinPolicy()
        each_s = max(0.05, within_s / len(names))
        login = Credentials(options.credentials_file).some(variables)
        profile = ExecutionProfile(
            load_balancing_policy=policy,
            consistency_level=ConsistencyLevel.QUORUM,
            serial_consistency_level=ConsistencyLevel.SERIAL,
        )
        return Cluster(
            names,
            port=int(hosts["port"] or PORT),
            protocol_version=ProtocolVersion.V4,  # of Cassandra 2.2 to 5; finding a newer one takes connections
            auth_provider=PlainTextAuthProvider(**login) if len(login) == 2 else None,
            ssl_context=ssl.create_default_context(cafile=options.ca_file or None) if options.tls else None,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=each_s,
            control_connection_timeout=each_s,
            max_schema_agreement_wait=context.rw_timeout_s,
            reconnection_policy=ConstantReconnectionPolicy(RECONNECT_S, None),
        )

    return CassandraPositions(connect, keyspace, options, redacted(url), context.rw_timeout_s)
