"""Composition root: builds a broker from its parts, serves it over gRPC, and stops it gracefully.

Stop: reject new appends, make pending ones durable, end the streams, close the store. When the store is fenced the
health service reports NOT_SERVING, and its process ends, so that a supervisor restarts it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.composition import build_served
from forebay.broker.console.facts import Facts
from forebay.broker.core.errors import Draining, NoJournal
from forebay.broker.core.resources.connections import ConnectionLimits
from forebay.broker.rpc.admin_service import AdminServicer, Identity
from forebay.broker.rpc.backup_service import BackupServicer
from forebay.broker.rpc.buffer.service import BufferServicer
from forebay.broker.rpc.dead_letter_service import DeadLetterServicer
from forebay.broker.rpc.epochs.service import EpochServicer
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.rpc.position_service import PositionServicer
from forebay.broker.rpc.resend_service import ResendServicer
from forebay.broker.rpc.schema_service import SchemaServicer
from forebay.broker.rpc.sinks.service import SinkServicer
from forebay.broker.rpc.transport.health import BoundedHealth
from forebay.broker.rpc.transport.interceptor import StatusInterceptor
from forebay.broker.rpc.transport.listener import Listener
from forebay.broker.rpc.transport.reflection import add_reflection
from forebay.broker.rpc.transport.registration import GenericRegistration
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.resources.memory import resident_bytes
from forebay.broker.runtime.resources.sockets import Sockets
from forebay.broker.runtime.resources.stop_steps import StopSteps
from forebay.broker.runtime.resources.supervision import SupervisedWork
from forebay.broker.security import (
    Security,
    close_audit_log,
    credential_files,
    fingerprint,
    open_audit_log,
    read,
    warn_of_open_access,
)
from forebay.broker.settings import BrokerSettings, SettingsError
from forebay.broker.shard import takeover_endpoint, watch_journal
from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.recovery import errors_of_a_start, recover
from forebay.broker.storage.repair.last_check import last
from forebay.broker.storage.replication.record import ANY_OTHER
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Store
from forebay.broker.telemetry.instruments import instruments
from forebay.credentials import CredentialReport
from forebay.packaging import install_command
from forebay.process import release_free_memory
from forebay.v1 import (
    admin_service_pb2_grpc,
    backup_service_pb2_grpc,
    buffer_service_pb2_grpc,
    dead_letter_service_pb2_grpc,
    epoch_service_pb2_grpc,
    position_service_pb2_grpc,
    resend_service_pb2_grpc,
    schema_service_pb2_grpc,
    sink_service_pb2_grpc,
)

if TYPE_CHECKING:
    from forebay.broker.console.console import RunningConsole

_log: Final = logging.getLogger(__name__)
MESSAGE_BYTES_MAX: Final = 32 << 20
READINESS: Final = "readiness"
FILES_WATCHED_S: Final = 1.0
"""Interval at which certificates and credentials are checked for changes."""
# A page of 1 MiB is one frame, not sixty, and the next one is in transit while it is processed. A higher lookahead is
# no faster, and is memory for each stream that sends faster than it is read; gRPC raises it for a long way by itself.
TRANSPORT: Final = [("grpc.http2.max_frame_size", 1 << 20), ("grpc.http2.lookahead_bytes", 1 << 20)]
OUTAGE_CHECK_S: Final = 1.0
"""Interval at which a stop looks whether the journal answers."""
KEEPALIVE_TIMEOUT_S: Final = 20
"""Time that a peer has to answer a probe, and to read anything that was sent to it."""
OPTIONS: Final = [
    *TRANSPORT,
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    ("grpc.so_reuseport", 0),
    # Only messages as they are: a compressed one takes a thousand times its bytes before anything can refuse it.
    ("grpc.compression_enabled_algorithms_bitset", 1),
]


def options(settings: BrokerSettings, connections_max: int) -> list[tuple[str, int]]:
    """Return the gRPC options of a server."""
    return [
        *OPTIONS,
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.max_concurrent_streams", settings.calls_per_connection_max),
        ("grpc.server_handshake_timeout_ms", int(settings.handshake_timeout_s * 1_000)),
        ("grpc.max_connection_idle_ms", int(settings.connection_idle_s * 1_000)),
        ("grpc.keepalive_time_ms", int(settings.keepalive_s * 1_000)),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1_000),
        # Without it an unanswered probe ends the connection after a minute, whatever the options above.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_S * 1_000),
    ]


class Serving:
    """A broker that serves. Made and used on one loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        security: Security,
        store: Store,
        clock: Clock,
        *,
        data_dir: str,
        connections_max: int | None = None,
        on_deleted: Callable[[], None] = lambda: None,
    ) -> None:
        """``connections_max`` is what the limit of open files allows, where that is less than the setting.

        ``on_deleted`` is called after a sink was deleted: a process of its own then changes its garbage collection.
        """
        recovered = recover(store)
        self._store = store
        self.settings = settings
        self.fenced = asyncio.Event()
        self.handing_over = asyncio.Event()
        """Set when another broker is to take over: the broker stops, and follows the journal again."""
        self.instruments = instruments(settings, instance=recovered.store_id)
        with errors_of_a_start():
            self.broker = build_served(
                recovered,
                settings,
                clock,
                data_dir=data_dir,
                codec=PageCodec(),
                instruments=self.instruments,
                on_fenced=lambda _: self.fenced.set(),
                on_memory=release_free_memory,
                on_deleted=on_deleted,
            )
        self._identity = Identity(
            version=version("forebay"),
            store_id=recovered.store_id,
            format=FORMAT,
            started_at_us=clock.wall_us(),
            data_dir=data_dir,
        )
        self._watching: list[SupervisedWork] = []
        self._is_stopping = False
        self._audit_log: logging.Handler | None = None
        self._health = BoundedHealth()
        self._security = security
        self._console: RunningConsole | None = None
        self._report = CredentialReport(
            credential_files(settings), log=_log, clock=time.monotonic, now=lambda: datetime.now(UTC)
        )
        self._listening = Listener(
            security.certificates, security.credentials, time.monotonic, self.instruments.call_refused
        )
        total = min(settings.connections_max, connections_max or settings.connections_max)
        self.connections = Connections(
            ConnectionLimits(total, min(total, settings.connections_per_peer_max), settings.unread_bytes_max),
            time.monotonic,
            on_closed=self.instruments.connections_closed,
            on_calm=release_free_memory,
            resident=resident_bytes,
        )
        self._server = grpc.aio.server(
            interceptors=self._listening.interceptors(
                StatusInterceptor(self.connections, on_answered=self.instruments.answered)
            ),
            options=options(settings, total),
        )
        self.port = 0

    async def start(self, before_serving: Callable[[], None] = lambda: None) -> None:
        """Bind, call ``before_serving``, and start to serve. Raises OSError if the address cannot be bound."""
        broker = self.broker
        server = GenericRegistration(self._server)
        sink_service_pb2_grpc.add_SinkServiceServicer_to_server(SinkServicer(broker), server)
        buffer_service_pb2_grpc.add_BufferServiceServicer_to_server(
            BufferServicer(broker, self.connections.close), server
        )
        admin_service_pb2_grpc.add_AdminServiceServicer_to_server(
            AdminServicer(broker, self._identity, self._warnings, self.connections, self.hand_over), server
        )
        backup_service_pb2_grpc.add_BackupServiceServicer_to_server(BackupServicer(broker), server)
        dead_letter_service_pb2_grpc.add_DeadLetterServiceServicer_to_server(DeadLetterServicer(broker), server)
        epoch_service_pb2_grpc.add_EpochServiceServicer_to_server(EpochServicer(broker), server)
        position_service_pb2_grpc.add_PositionServiceServicer_to_server(PositionServicer(broker), server)
        resend_service_pb2_grpc.add_ResendServiceServicer_to_server(ResendServicer(broker), server)
        schema_service_pb2_grpc.add_SchemaServiceServicer_to_server(SchemaServicer(broker), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        add_reflection(server)
        try:
            self.port = self._listening.bind(self._server, self.settings.listen)
        except RuntimeError as error:
            await asyncio.to_thread(self.instruments.close)
            raise OSError(f"cannot listen on {self.settings.listen}: {error}") from error
        self._audit_log = open_audit_log(self.settings)
        self._report.check()
        if self.settings.console_listen:
            self._console = self._open_console()
        broker.fleet.endpoint = self.settings.advertise or self.endpoint
        broker.start()
        self.instruments.watch(broker)
        self.instruments.watch_connections(self.connections)
        sockets = Sockets(self.port)
        self._watching.append(broker.supervisor.keep_running("connections", lambda: self.connections.run(sockets)))
        before_serving()
        await self._server.start()
        warn_of_open_access(self.settings, self._security)
        if self._console is not None:
            self._console.start(broker.supervisor)
        await self._say(health_pb2.HealthCheckResponse.SERVING)
        self._watching.append(broker.supervisor.keep_running("health", self._until_fenced))
        if isinstance(self._store, ReplicatedStore):
            watch = partial(
                watch_journal,
                self._store,
                self.settings.takeover_after_s,
                keep_alive=broker.housekeeping.store_age,
                report=self._report_journal,
            )
            self._watching.append(broker.supervisor.keep_running("journal", watch))
        if self._security != Security(None, None):
            self._watching.append(broker.supervisor.keep_running("credentials", self._watch_files))
        if find_spec("pyarrow") is None:
            _log.info("rows with a schema are kept and delivered, but not decoded fix=%s", install_command("arrow"))
        _log.info("broker is serving endpoint=%s sinks=%d", self.endpoint, len(broker.sinks))

    @property
    def console_url(self) -> str:
        """URL of the console; empty without one."""
        return self._console.url if self._console is not None else ""

    def _open_console(self) -> RunningConsole:
        """Return the console, bound to its address.

        Raises ``OSError``, and ``SettingsError`` without its extra.
        """
        try:
            from forebay.broker.console.console import RunningConsole  # noqa: PLC0415 - needs the extra
        except ModuleNotFoundError as missing:
            raise SettingsError(
                f"console_listen = {self.settings.console_listen!r}: the package {missing.name} is missing:"
                f" {install_command('console')}"
            ) from missing
        return RunningConsole(
            self.broker,
            self.connections,
            Facts(
                self._identity.version,
                lambda: self.endpoint,
                self._identity.started_at_us,
                last(self.settings.data_dir),
                self._warnings,
            ),
            self.settings,
            lambda: self._listening.credentials,
        )

    def _warnings(self) -> list[str]:
        return [*self._report.warnings, *self.broker.backups.warnings()]

    def renew(self) -> None:
        """Reload certificates and tokens for later connections and calls; invalid files leave the old ones.

        TLS, client certificates or tokens begin and end with a start of the broker only.
        """
        try:
            found = read(self.settings)
        except SettingsError as error:
            _log.error("certificates and tokens were not renewed: %s", error)
            return
        if found == Security(None, None):
            _log.info("nothing to renew: the broker has neither certificates nor tokens")
            return
        self._listening.renew(found.certificates, found.credentials)
        if self._console is not None:
            try:
                self._console.renew()
            except OSError as error:  # the files changed once more since they were checked
                _log.error("certificate of the console was not renewed: %s", error)
        _log.info("certificates and tokens were renewed")

    @property
    def endpoint(self) -> str:
        """HOST:PORT, as it was bound."""
        return f"{self.settings.listen.rpartition(':')[0]}:{self.port}"

    async def stop(self) -> None:
        """Drain, end the streams, sync and close; each step runs whatever the result of the others.

        Raises ``StopFailed`` at the end if a step failed.
        """
        self._is_stopping = True
        stopping = StopSteps()
        ending = asyncio.ensure_future(self._end_outages())
        await stopping.step("health", lambda: self._say(health_pb2.HealthCheckResponse.NOT_SERVING))
        if self._console is not None:
            await stopping.step("console", self._console.stop)
        await stopping.step("drain", self.broker.drain)
        self._health.end_watches()
        await stopping.step("streams", lambda: self._server.stop(self.settings.drain_s))
        for watching in self._watching:
            await stopping.step("watching", watching.stop)
        await stopping.step("broker", self.broker.close)
        # Last, so that the metrics include the stop itself.
        await stopping.step("telemetry", lambda: asyncio.to_thread(self.instruments.close))
        await stopping.step("audit log", lambda: asyncio.to_thread(close_audit_log, self._audit_log))
        ending.cancel()
        stopping.finish()
        _log.info("broker has stopped")

    def hand_over(self, to: str) -> tuple[int, bool]:
        """Begin to hand the shard over to an endpoint, or to any other broker if it is empty.

        Returns the owner epoch, and False for the endpoint of this broker. Raises ``NoJournal`` and ``Draining``.
        """
        if not isinstance(self._store, ReplicatedStore):
            raise NoJournal
        epoch = self._store.owner.epoch
        if to == takeover_endpoint(self.settings):
            return epoch, False
        if self.handing_over.is_set() or self._is_stopping:  # to the broker that the first caller has named
            raise Draining
        _log.warning("shard is handed over to=%s epoch=%d", to or "any other broker", epoch)
        self._store.successor = to or ANY_OTHER
        self.handing_over.set()
        return epoch, True

    async def _end_outages(self) -> None:
        """Fail what waits for a journal that does not answer, from ``drain_s`` on.

        It has no receipt, so it must not keep the process. That the journal does not answer may show only later.
        """
        if isinstance(self._store, ReplicatedStore):
            await asyncio.sleep(self.settings.drain_s)
            while True:
                self._store.end_outage()
                await asyncio.sleep(OUTAGE_CHECK_S)

    async def _until_fenced(self) -> None:
        await self.fenced.wait()
        await self._say(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def _report_journal(self, ready: bool) -> None:
        if not self.fenced.is_set() and not self._is_stopping:
            status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
            await self._health.set(READINESS, status)

    async def _watch_files(self) -> None:
        """Renew certificates and credentials when one of their files changes."""
        seen = self._security.files  # so what changed during the start is renewed
        while True:
            await asyncio.sleep(FILES_WATCHED_S)
            found = await asyncio.to_thread(fingerprint, self.settings)
            changed = found != seen
            if changed:
                seen = found
                self.renew()
            await asyncio.to_thread(self._report.check, force=changed)

    async def _say(self, status: Any) -> None:
        await self._health.set("", status)
        await self._health.set(READINESS, status)
