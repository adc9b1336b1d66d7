"""Connections to brokers, made when they are first needed.

The rule: a channel belongs to the process that made it. After ``fork`` the child finds none and makes its own; what
it inherited is neither used nor closed, because its threads do not exist there.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

import grpc

from forebay.client.errors import (
    BrokerFault,
    BrokerUnavailable,
    ClientClosed,
    CredentialsUnusable,
    DeadlineExceeded,
    ForebayError,
    HandshakeFailed,
    InvalidSetting,
)
from forebay.client.settings import MESSAGE_BYTES_MAX, ClientSettings, RetryPolicy
from forebay.client.transport import handshake
from forebay.client.transport.diagnosis import Diagnosis
from forebay.client.transport.retry import RetryState, call_with_retries
from forebay.client.transport.retry_rules import RULES
from forebay.client.transport.routing import endpoint_of
from forebay.client.transport.security import credential_files, fingerprint, open_channel
from forebay.client.transport.status import from_call
from forebay.credentials import CredentialReport
from forebay.v1 import sink_service_pb2
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

T = TypeVar("T")
log = logging.getLogger(__name__)

RECONNECT_MS: Final = (50, 1_000)
"""Bounds of gRPC's own pauses between connection attempts; ours come on top."""

_SAY_NOTHING: Final = (BrokerFault, DeadlineExceeded)
"""Errors that do not prove that the broker was reached: gRPC makes them by itself too."""


@dataclass(slots=True)
class _Made:
    """A channel, and the state of the files that it was made with: gRPC reads them once."""

    channel: grpc.Channel
    files: tuple[tuple[int, ...], ...]
    replaced: grpc.Channel | None = None
    """The channel before it; calls may be under way on it."""
    stubs: dict[type[Any], Any] = field(default_factory=dict)
    """Stubs of its services by class: making one takes a tenth of a call."""

    def close(self) -> None:
        """Close both."""
        for channel in (self.channel, self.replaced):
            if channel is not None:
                channel.close()


class _Process:
    """The channels of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Protects the two below; held for as long as making a channel takes, which does not connect."""
        self.channels: dict[str, _Made] = {}
        self.closed = False


class Channels:
    """One channel per endpoint and process. Usable from several threads."""

    def __init__(self, endpoints: Sequence[str], settings: ClientSettings) -> None:
        if not endpoints or not all(endpoints):
            raise InvalidSetting("endpoint: at least one HOST:PORT is needed", facts={"field": "endpoint"})
        self.endpoints = tuple(dict.fromkeys(endpoints))
        self.settings = settings
        self._processes: dict[int, _Process] = {os.getpid(): _Process()}
        self._diagnosis = Diagnosis(
            lambda endpoint: handshake.probe(endpoint, settings),
            patience_s=settings.handshake_patience_s,
            clock=time.monotonic,
            sleep=time.sleep,
        )

        self._report = CredentialReport(
            credential_files(settings), log=log, clock=time.monotonic, now=lambda: datetime.now(UTC)
        )

    def of_sink(self, sink: str) -> grpc.Channel:
        """Return the channel to the broker that holds ``sink``."""
        return self.of_endpoint(endpoint_of(sink, self.endpoints))

    def of_endpoint(self, endpoint: str) -> grpc.Channel:
        """Return the channel to ``endpoint``. Raises ``ClientClosed``, ``CredentialsUnusable``, ``InvalidSetting``."""
        return self._made(endpoint).channel

    def stub(self, kind: type[T], sink: str) -> T:
        """Return the stub of a service at the broker that holds ``sink``; raises as ``of_endpoint``."""
        return self.stub_at(kind, endpoint_of(sink, self.endpoints))

    def stub_at(self, kind: type[T], endpoint: str) -> T:
        """Return the stub of a service at ``endpoint``; raises as ``of_endpoint``."""
        made = self._made(endpoint)
        found = made.stubs.get(kind)
        if found is None:  # two threads may both make one: either will do
            found = made.stubs[kind] = cast("Callable[[grpc.Channel], T]", kind)(made.channel)
        return cast("T", found)

    def _made(self, endpoint: str) -> _Made:
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            if process.closed:
                raise ClientClosed("the client was closed")
            made = process.channels.get(endpoint)
            if made is None:
                files = fingerprint(self.settings.tls)  # before they are read: a later change is seen
                made = _Made(open_channel(endpoint, self.settings, self.options()), files)
                process.channels[endpoint] = made
        self._report.look()
        return made

    def reached(self, sink: str | None = None) -> None:
        """Note that a call about ``sink`` got through to its broker."""
        self._report.look()
        for endpoint in self._named(sink):
            self._diagnosis.reached(endpoint)

    def ended(self, failure: grpc.RpcError, sink: str | None = None) -> ForebayError:
        """Return the error that ended a call about ``sink``.

        Where nobody was reached this looks whether TLS keeps the two apart: ``HandshakeFailed`` once that has lasted.
        """
        error = from_call(failure)
        if type(error) is not BrokerUnavailable or error.reason != BrokerUnavailable.default_reason:
            if not isinstance(error, _SAY_NOTHING):
                self.reached(sink)
            return error
        for endpoint in self._named(sink):
            if self._renewed(endpoint):
                continue
            verdict = self._diagnosis.of(endpoint)
            if verdict.is_final:
                return HandshakeFailed(f"{endpoint}: {verdict.text}", facts={"endpoint": endpoint})
            if verdict.text:
                return BrokerUnavailable(f"{error}; {endpoint}: {verdict.text}", retry_after_s=error.retry_after_s)
        return error

    def _renewed(self, endpoint: str) -> bool:
        """Replace a channel whose files have changed since it was made; return whether that was so."""
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            made = process.channels.get(endpoint)
            files = fingerprint(self.settings.tls)
            if made is None or process.closed or files == made.files:
                return False
            try:
                channel = open_channel(endpoint, self.settings, self.options())
            except CredentialsUnusable as error:  # half of them is there: looked at again with the next try
                log.warning("changed certificates cannot be used yet endpoint=%s: %s", endpoint, error)
                return False
            if made.replaced is not None:
                made.replaced.close()
            process.channels[endpoint] = _Made(channel, files, made.channel)
        log.info("certificates were read again endpoint=%s", endpoint)
        return True

    def _named(self, sink: str | None) -> Sequence[str]:
        return self.endpoints if sink is None else [endpoint_of(sink, self.endpoints)]

    def close(self) -> None:
        """Close this process's channels and all calls on them. Closing twice is fine."""
        process = self._processes.setdefault(os.getpid(), _Process())
        with process.lock:
            process.closed = True
            channels = list(process.channels.values())
            process.channels.clear()
        for channel in channels:
            channel.close()

    def options(self) -> list[tuple[str, int]]:
        """What gRPC is told of each connection."""
        return [
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.keepalive_time_ms", int(self.settings.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.settings.keepalive_timeout_s * 1000)),
            # Without it a probe that stays unanswered ends the connection after a minute, whatever stands above.
            ("grpc.http2.ping_timeout_ms", int(self.settings.keepalive_timeout_s * 1000)),
            ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS[0]),
            # Not a pause: gRPC's least time for an attempt to connect, with all round trips of TCP, TLS and HTTP/2.
            ("grpc.min_reconnect_backoff_ms", int(self.settings.connect_timeout_s * 1000)),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MS[1]),
            # Brokers are told apart by endpoint: a client's channels share no connection with another client's.
            ("grpc.use_local_subchannel_pool", 1),
        ]


class Unary:
    """Makes single calls, with time-out, retries and typed errors."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def call(
        self,
        rpc: str,
        attempt: Callable[[float], T],
        *,
        twice_is_fine: bool = False,
        extra_s: float = 0.0,
        policy: RetryPolicy | None = None,
    ) -> tuple[T, int]:
        """Return what ``attempt(timeout_s)`` returns, and the number of tries it took.

        ``rpc`` is what it calls, and ``RULES`` says whether it is called again; with ``twice_is_fine`` it is, whatever
        they say. ``extra_s`` is added to the time-out of each try, for calls that wait on the broker's side. ``policy``
        replaces the client's own for this call.
        """
        settings, rule = self._channels.settings, RULES[rpc]
        state = RetryState(policy or settings.retry, random.random)

        def once() -> T:
            try:
                return attempt(settings.call_timeout_s + extra_s)
            except grpc.RpcError as failure:
                raise self._channels.ended(failure) from failure
            except ValueError as failure:  # grpc: the channel was closed by another thread
                raise ClientClosed("the client was closed during a call") from failure

        def may_retry(error: ForebayError) -> bool:
            return rule.may_retry(error) or (twice_is_fine and error.retryable)

        response = call_with_retries(once, state=state, clock=time.monotonic, sleep=time.sleep, may_retry=may_retry)
        self._channels.reached()
        return response, state.failures + 1

    def incarnation(self, sink: str) -> str:
        """Return the incarnation of a sink: what a request is guarded by. Raises ``SinkNotFound``."""
        stub = self._channels.stub(SinkServiceStub, sink)
        request = sink_service_pb2.GetSinkRequest(name=sink)
        response, _ = self.call("GetSink", lambda t: stub.GetSink(request, timeout=t))
        return str(response.sink.incarnation)


def as_endpoints(endpoint: str | Iterable[str]) -> tuple[str, ...]:
    """Return the endpoints of a client's first argument: one, several, or several in one string with commas."""
    several = endpoint.split(",") if isinstance(endpoint, str) else list(endpoint)
    return tuple(one.strip() for one in several)
