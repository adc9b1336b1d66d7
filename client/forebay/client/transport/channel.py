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
from collections.abc import Awaitable, Callable, Iterable
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
)
from forebay.client.settings import MESSAGE_BYTES_MAX, ClientSettings, RetryPolicy
from forebay.client.transport import handshake
from forebay.client.transport.diagnosis import Diagnosis
from forebay.client.transport.endpoint import as_endpoints, server_of
from forebay.client.transport.io import Io
from forebay.client.transport.rendezvous import endpoint_of
from forebay.client.transport.retry import RetryState, call_with_retries
from forebay.client.transport.retry_rules import RULES
from forebay.client.transport.security import credential_files, fingerprint
from forebay.client.transport.status import from_call
from forebay.client.transport.threads import THREADS
from forebay.credentials import CredentialReport
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

T = TypeVar("T")
log = logging.getLogger(__name__)

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
        self.endpoints = as_endpoints(endpoints)
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

    def of_sink(self, sink: str) -> Any:
        """Return the channel to the broker that holds ``sink``."""
        return self.of_endpoint(self.endpoint_of(sink))

    def endpoint_of(self, sink: str) -> str:
        """Return the endpoint of the broker that holds ``sink``."""
        return endpoint_of(sink, self.endpoints)

    def of_endpoint(self, endpoint: str) -> Any:
        """Return the channel to ``endpoint``.

        Raises ``CLIENT_CLOSED``, ``CredentialsUnusable``, ``INVALID_SETTING``.
        """
        return self._open(endpoint).channel

    def server_of(self, sink: str) -> dict[str, str | int]:
        """Return the address of the broker that holds ``sink``, as attributes of spans and metrics."""
        return server_of(self.endpoint_of(sink))

    def stub(self, kind: type[T], sink: str) -> T:
        """Return the stub of a service at the broker that holds ``sink``; raises as ``of_endpoint``."""
        return self.stub_at(kind, self.endpoint_of(sink))

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
        attempt: Callable[[float], Awaitable[T]],
        *,
        endpoint: str,
        is_idempotent: bool = False,
        extra_s: float = 0.0,
        policy: RetryPolicy | None = None,
    ) -> tuple[T, int]:
        """Return the result of ``attempt(timeout_s)``, which calls ``endpoint``, and the number of attempts.

        ``rpc`` selects the retry rule in ``RULES``; ``is_idempotent`` permits a retry regardless of the rule.
        ``extra_s`` is added to the time limit of each attempt, for calls that wait at the broker. ``policy`` replaces
        the client's policy for this call.
        """
        settings, rule = self._channels.settings, RULES[rpc]
        state = RetryState(policy or settings.retry, random.random)

        async def once() -> T:
            try:
                return await attempt(settings.call_timeout_s + extra_s)
            except grpc.RpcError as failure:
                raise await self._channels.ended(failure, endpoint) from failure
            except ValueError as failure:  # grpc: the channel was closed by another thread
                raise Closed("the client was closed during a call", reason=Reason.CLIENT_CLOSED) from failure

        def may_retry(error: ForebayError) -> bool:
            return rule.may_retry(error) or (is_idempotent and error.retryable)

        sleep = self._channels.io.sleep
        response = await call_with_retries(once, state=state, clock=time.monotonic, sleep=sleep, may_retry=may_retry)
        self._channels.reached(endpoint)
        return response, state.failures + 1

    async def incarnation(self, sink: str) -> str:
        """Return the current incarnation of a sink, as a guard for a request. Raises ``SinkNotFound``."""
        request = sink_service_pb2.GetSinkRequest(name=sink)
        method = self._channels.stub(SinkServiceStub, sink).GetSink
        endpoint = self._channels.endpoint_of(sink)
        response, _ = await self.call(
            "GetSink", lambda limit_s: self._channels.io.call(method, request, limit_s), endpoint=endpoint
        )
        return str(response.sink.incarnation)
