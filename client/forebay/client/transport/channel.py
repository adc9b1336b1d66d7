"""Connections to brokers, opened on first use.

A channel belongs to the process that opened it. After ``fork`` the child opens its own channels. Inherited channels are
neither used nor closed, because their threads do not exist in the child.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

import grpc

from forebay.client.errors import (
    AccessDenied,
    BrokerFault,
    BrokerUnavailable,
    Closed,
    CredentialsUnusable,
    DeadlineExceeded,
    ForebayError,
    NotOwner,
    SinkNotFound,
)
from forebay.client.settings import MESSAGE_BYTES_MAX, ClientSettings, RetryPolicy
from forebay.client.shards.fleet import Fleet
from forebay.client.shards.shard import Shard
from forebay.client.transport import handshake
from forebay.client.transport.diagnosis import Diagnosis
from forebay.client.transport.endpoint import as_endpoints, fleet_members, server_of
from forebay.client.transport.io import Io
from forebay.client.transport.rendezvous import endpoint_of
from forebay.client.transport.retry import RetryState, call_with_retries
from forebay.client.transport.retry_rules import RULES
from forebay.client.transport.security import credential_files, fingerprint
from forebay.client.transport.status import from_call
from forebay.client.transport.threads import THREADS
from forebay.credentials import CredentialReport
from forebay.errors.reasons import Reason
from forebay.v1 import admin_service_pb2, sink_service_pb2
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

T = TypeVar("T")
log = logging.getLogger(__name__)

ASKING_S: Final = 5.0
"""Time limit of a question to one broker of a fleet; others can be asked instead."""
OPENING_S: Final = 30.0
"""Least time limit of the first answer to a stream."""
RECONNECT_MS: Final = (50, 1_000)
"""Bounds of gRPC's own delay between connection attempts; it adds to the client's delay."""

_INCONCLUSIVE: Final = (BrokerFault, DeadlineExceeded)
"""Errors that do not prove that the broker was reached, because gRPC also raises them locally."""


@dataclass(slots=True)
class _OpenChannel:
    """Channel and fingerprint of the files that it was opened with; gRPC reads files only once."""

    channel: Any
    files: tuple[tuple[int, ...], ...]
    replaced: Any = None
    """Previous channel, on which calls may be in progress."""
    stubs: dict[type[Any], Any] = field(default_factory=dict)
    """Stubs by class; creating one takes about 50 microseconds of processor time."""

    async def close(self, io: Io) -> None:
        """Close both channels."""
        for channel in (self.channel, self.replaced):
            if channel is not None:
                await io.close_channel(channel)


class _Process:
    """Channels of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Protects the two below; held while a channel is created, which does not connect."""
        self.channels: dict[str, _OpenChannel] = {}
        self.closed = False


class Channels:
    """One channel per endpoint and process. Thread-safe."""

    def __init__(self, endpoints: str | Iterable[str], settings: ClientSettings, io: Io = THREADS) -> None:
        endpoints = endpoints if isinstance(endpoints, str) else tuple(endpoints)
        members = fleet_members(endpoints)
        self.fleet = Fleet(members, self._list_shards, self._has_sink) if members is not None else None
        """Shards, None for independent brokers."""
        self._endpoints = as_endpoints(endpoints) if members is None else ()
        self.settings = settings
        self.io = io
        """Waits and calls: those of threads, or of an event loop."""
        self._processes: dict[int, _Process] = {os.getpid(): _Process()}
        self._diagnosis = Diagnosis(
            lambda endpoint: io.run(lambda: handshake.probe(endpoint, settings)),
            patience_s=settings.handshake_patience_s,
            clock=time.monotonic,
            sleep=io.sleep,
        )

        self._report = CredentialReport(
            credential_files(settings), log=log, clock=time.monotonic, now=lambda: datetime.now(UTC)
        )

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Endpoints of the brokers; of a fleet those of the owners, as far as they are known."""
        return self._endpoints if self.fleet is None else self.fleet.owners

    def endpoint_of(self, sink: str) -> str:
        """Return the endpoint of the broker that holds ``sink``; in a fleet as far as it is known."""
        return endpoint_of(sink, self._endpoints) if self.fleet is None else self.fleet.guess(sink)

    async def locate(self, sink: str, *, creates_in: str | None = None) -> str:
        """Return the endpoint of the broker that holds ``sink``; raises as ``Fleet.locate``."""
        if self.fleet is None:
            return endpoint_of(sink, self._endpoints)
        return await self.fleet.locate(sink, creates_in=creates_in)

    async def brokers(self) -> tuple[str, ...]:
        """Return the endpoints of all brokers; raises as ``Fleet.shards``."""
        if self.fleet is not None:
            await self.fleet.shards()
        return self.endpoints

    def is_placed(self, sink: str) -> bool:
        """Return True if ``endpoint_of`` needs no ``locate`` before."""
        return self.fleet is None or self.fleet.is_placed(sink)

    def note_failure(self, endpoint: str, error: ForebayError) -> None:
        """Record the error of a call to an endpoint: another broker may own its shard by now."""
        if self.fleet is not None:
            self.fleet.note_failure(endpoint, error)

    def misplaced(self, sink: str, endpoint: str, error: ForebayError, hops: int) -> bool:
        """Return True if a call that ended with ``error`` may be repeated at once where ``locate`` says.

        ``hops`` is the number of times that this has happened to the call before.
        """
        return self.fleet is not None and self.fleet.misplaced(sink, endpoint, error, hops)

    async def _list_shards(self, endpoint: str) -> tuple[str, Sequence[Shard]]:
        """Return the shard of a broker and all that it knows."""
        found = await self._ask(AdminServiceStub, "ListShards", admin_service_pb2.ListShardsRequest(), endpoint)
        return found.shard, [Shard(one.name, one.endpoint, one.owner_epoch, one.journal) for one in found.shards]

    async def _has_sink(self, endpoint: str, sink: str) -> bool:
        """Return True if a broker has a sink."""
        try:
            await self._ask(SinkServiceStub, "GetSink", sink_service_pb2.GetSinkRequest(name=sink), endpoint)
        except (SinkNotFound, NotOwner):
            return False
        return True

    async def _ask(self, kind: type[Any], rpc: str, request: Any, endpoint: str) -> Any:
        """Return the answer of a broker that is asked for shards, without a retry."""
        method = getattr(self.stub_at(kind, endpoint), rpc)
        try:
            return await self.io.call(method, request, min(ASKING_S, self.settings.call_timeout_s))
        except grpc.RpcError as failure:
            raise await self.ended(failure, endpoint) from failure
        except ValueError as failure:  # grpc: the channel was closed by another thread
            raise Closed("the client was closed during a call", reason=Reason.CLIENT_CLOSED) from failure

    def of_endpoint(self, endpoint: str) -> Any:
        """Return the channel to ``endpoint``.

        Raises ``CLIENT_CLOSED``, ``CredentialsUnusable``, ``INVALID_SETTING``.
        """
        return self._open(endpoint).channel

    def server_of(self, sink: str) -> dict[str, str | int]:
        """Return the address of the broker that holds ``sink``, as attributes of spans and metrics."""
        return server_of(self.endpoint_of(sink))

    def stub_at(self, kind: type[T], endpoint: str) -> T:
        """Return the stub of a service at ``endpoint``; raises as ``of_endpoint``."""
        opened = self._open(endpoint)
        found = opened.stubs.get(kind)
        if found is None:  # two threads may both create one: either is valid
            found = opened.stubs[kind] = cast("Callable[[grpc.Channel], T]", kind)(opened.channel)
        return cast("T", found)

    def _open(self, endpoint: str) -> _OpenChannel:
        self.io.check()
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            if process.closed:
                raise Closed("the client is closed: open a new one", reason=Reason.CLIENT_CLOSED)
            opened = process.channels.get(endpoint)
            if opened is None:
                files = fingerprint(self.settings.tls)  # before they are read, so that a later change is detected
                opened = _OpenChannel(self.io.open_channel(endpoint, self.settings, self.options()), files)
                process.channels[endpoint] = opened
        self._report.check()
        return opened

    def reached(self, endpoint: str) -> None:
        """Record that a call reached the broker at ``endpoint``."""
        self._report.check()
        self._diagnosis.reached(endpoint)

    async def ended(self, failure: grpc.RpcError, endpoint: str) -> ForebayError:
        """Return the error that ended a call to the broker at ``endpoint``.

        If it was not reached, this probes the endpoint for a TLS mismatch, and returns ``HANDSHAKE_FAILED`` if that
        persists.
        """
        error = from_call(failure)
        if error.reason != Reason.UNREACHABLE.name:
            if not isinstance(error, _INCONCLUSIVE):
                self.reached(endpoint)
            return error
        if await self._reopened(endpoint):
            return error
        verdict = await self._diagnosis.of(endpoint)
        if verdict.is_final:
            return AccessDenied(
                f"{endpoint}: {verdict.text}", reason=Reason.HANDSHAKE_FAILED, facts={"endpoint": endpoint}
            )
        if verdict.text:
            return BrokerUnavailable(f"{error}; {endpoint}: {verdict.text}", retry_after_s=error.retry_after_s)
        return error

    async def _reopened(self, endpoint: str) -> bool:
        """Replace a channel if its files have changed since it was opened; return True if so."""
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            opened = process.channels.get(endpoint)
            files = fingerprint(self.settings.tls)
            if opened is None or process.closed or files == opened.files:
                return False
            try:
                channel = self.io.open_channel(endpoint, self.settings, self.options())
            except (
                CredentialsUnusable
            ) as error:  # certificate and key do not match yet: checked again at the next attempt
                log.warning("changed certificates are not usable yet endpoint=%s: %s", endpoint, error)
                return False
            process.channels[endpoint] = _OpenChannel(channel, files, opened.channel)
        if opened.replaced is not None:
            await self.io.close_channel(opened.replaced)
        log.info("certificates were reloaded endpoint=%s", endpoint)
        return True

    async def close(self) -> None:
        """Close this process's channels and all calls on them. Idempotent."""
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            process.closed = True
            channels = list(process.channels.values())
            process.channels.clear()
        for channel in channels:
            await channel.close(self.io)

    @property
    def opening_s(self) -> float:
        """Time limit of the first answer to a stream."""
        return max(OPENING_S, self.settings.call_timeout_s)

    def options(self) -> list[tuple[str, int]]:
        """Channel options for gRPC."""
        return [
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.keepalive_time_ms", int(self.settings.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.settings.keepalive_timeout_s * 1000)),
            # Without it an unanswered probe closes the connection after a minute, regardless of the options above.
            ("grpc.http2.ping_timeout_ms", int(self.settings.keepalive_timeout_s * 1000)),
            ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS[0]),
            # Not a delay: gRPC's minimum time limit of a connection attempt, including TCP, TLS and HTTP/2.
            ("grpc.min_reconnect_backoff_ms", int(self.settings.connect_timeout_s * 1000)),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MS[1]),
            # Channels of two clients do not share a connection.
            ("grpc.use_local_subchannel_pool", 1),
        ]


class Unary:
    """Unary calls with time limit, retries and typed errors."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def call(
        self,
        rpc: str,
        attempt: Callable[[str, float], Awaitable[T]],
        *,
        sink: str = "",
        endpoint: str | None = None,
        creates_in: str | None = None,
        is_idempotent: bool = False,
        extra_s: float = 0.0,
        policy: RetryPolicy | None = None,
    ) -> tuple[T, int]:
        """Return the result of ``attempt(endpoint, timeout_s)``, and the number of attempts.

        Without ``endpoint`` it is that of the broker that holds ``sink``; with ``creates_in``, a shard or empty, of the
        broker that creates it, see ``Fleet.locate``. ``rpc`` selects the retry rule in ``RULES``; ``is_idempotent``
        permits a retry regardless of the rule. ``extra_s`` is added to the time limit of each attempt, for calls that
        wait at the broker. ``policy`` replaces the client's policy for this call.
        """
        channels, settings, rule = self._channels, self._channels.settings, RULES[rpc]
        state = RetryState(policy or settings.retry, random.random)
        chosen, is_located = endpoint or "", False

        async def once() -> T:
            nonlocal chosen, is_located
            hops = 0
            while True:
                is_located = False
                chosen = endpoint or await channels.locate(sink, creates_in=creates_in)
                is_located = True
                try:
                    return await attempt(chosen, settings.call_timeout_s + extra_s)
                except grpc.RpcError as failure:
                    error = await channels.ended(failure, chosen)
                    if endpoint is not None:
                        channels.note_failure(endpoint, error)
                        raise error from failure
                    if not channels.misplaced(sink, chosen, error, hops):
                        raise error from failure
                    hops += 1
                except ValueError as failure:  # grpc: the channel was closed by another thread
                    raise Closed("the client was closed during a call", reason=Reason.CLIENT_CLOSED) from failure

        def may_retry(error: ForebayError) -> bool:
            # Whatever the rule, a call that was sent nowhere may be sent.
            return rule.may_retry(error) or ((is_idempotent or not is_located) and error.retryable)

        sleep = channels.io.sleep
        response = await call_with_retries(once, state=state, clock=time.monotonic, sleep=sleep, may_retry=may_retry)
        channels.reached(chosen)
        return response, state.failures + 1

    async def incarnation(self, sink: str) -> str:
        """Return the current incarnation of a sink, as a guard for a request. Raises ``SinkNotFound``."""
        request = sink_service_pb2.GetSinkRequest(name=sink)

        async def attempt(endpoint: str, limit_s: float) -> Any:
            method = self._channels.stub_at(SinkServiceStub, endpoint).GetSink
            return await self._channels.io.call(method, request, limit_s)

        response, _ = await self.call("GetSink", attempt, sink=sink)
        return str(response.sink.incarnation)
