"""Call of a known principal: its rights, its rate limits, and its end at a revoked credential."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, Final

from forebay.broker.core.access.credentials import Proof
from forebay.broker.core.access.principal import Principal
from forebay.broker.core.access.throttle import Throttle
from forebay.broker.core.errors import BrokerError, PermissionDenied
from forebay.broker.rpc.access.audit import Caller
from forebay.broker.rpc.access.rules import Rule
from forebay.broker.rpc.pages.requests import PageRequest
from forebay.errors.reasons import Reason

_current: ContextVar[OpenCall | None] = ContextVar("forebay_call", default=None)

DELAY_MAX_S: Final = 2.0
"""Longest wait of a unary call for its rate limit; beyond it the call is rejected."""


class Rates:
    """Rate limits of one principal, shared by all its calls."""

    def __init__(
        self, principal: Principal, clock: Callable[[], float], on_refused: Callable[[str], None] = lambda reason: None
    ) -> None:
        """``clock`` is monotonic, in seconds. ``on_refused`` gets the reason of each refused call."""
        self._on_refused = on_refused
        limits, now_s = principal.limits, clock()
        self._principal = principal
        self._clock = clock
        self._calls = Throttle(limits.calls_per_s, now_s) if limits.calls_per_s else None
        self._bytes = Throttle(limits.bytes_per_s, now_s) if limits.bytes_per_s else None

    def charge(self, message: Any) -> None:
        """Charge one message: a request, or an answer of a stream."""
        now_s = self._clock()
        if self._calls is not None:
            self._calls.charge(1, now_s)
        if self._bytes is not None:
            self._bytes.charge(_size(message), now_s)

    async def wait(self) -> None:
        """Wait until the principal is within its limits again."""
        while (delay := self._delay()[0]) > 0:
            await asyncio.sleep(delay)

    async def wait_or_refuse(self) -> None:
        """Wait for a short time; raises `RATE_LIMITED` where that does not suffice."""
        delay_s, limit, bound = self._delay()
        if delay_s > DELAY_MAX_S:
            self._on_refused(Reason.RATE_LIMITED.name)
            refusal = BrokerError(Reason.RATE_LIMITED, principal=self._principal.name, limit=limit, bound=bound)
            refusal.retry_after_s = delay_s
            raise refusal
        await self.wait()

    def _delay(self) -> tuple[float, str, int]:
        now_s, limits = self._clock(), self._principal.limits
        calls = self._calls.delay_s(now_s) if self._calls is not None else 0.0
        size = self._bytes.delay_s(now_s) if self._bytes is not None else 0.0
        if size > calls:
            return size, "bytes_per_s", limits.bytes_per_s
        return calls, "calls_per_s", limits.calls_per_s


class OpenCall:
    """Authenticated call. Ends with an error when its credential is revoked."""

    def __init__(self, method: str, rule: Rule, proof: Proof, principal: Principal, peer: str, rates: Rates) -> None:
        self.method = method
        self.rule = rule
        self.proof = proof
        self.principal = principal
        self.rates = rates
        self.sinks: Sequence[str] | None = None
        """Sinks it was authorized for; None before."""
        self.ended: BrokerError | None = None
        """Reason why the broker ends it."""
        self.refusal: BrokerError | None = None
        """Refusal by access control, for the audit log."""
        self._peer = peer
        self._task = asyncio.current_task()

    @property
    def caller(self) -> Caller:
        """Caller, for the audit log."""
        return Caller(self.principal.name, self._peer)

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run the call; inside, `current_call` returns it."""
        token = _current.set(self)
        try:
            return await work
        finally:
            _current.reset(token)

    def authorize(self, request: Any) -> None:
        """Check the right to the sinks that a request names. Raises `PermissionDenied`."""
        sinks = self.rule.sinks(request)
        try:
            check(self.principal, self.rule, sinks)
        except PermissionDenied as error:
            self.refusal = error
            raise
        self.sinks = sinks

    def renew(self, principal: Principal | None, gone: BrokerError) -> None:
        """Apply the current rights of the credential; end the call if it has none left."""
        if principal is None:
            self._end(gone)
            return
        self.principal = principal
        if self.sinks is not None:
            try:
                check(principal, self.rule, self.sinks)
            except PermissionDenied as error:
                self._end(error)

    def _end(self, error: BrokerError) -> None:
        if self.ended is None and self._task is not None:
            self.ended = self.refusal = error
            self._task.cancel()

    def aborts(self) -> BrokerError | None:
        """Return the error to end with after a cancellation, and withdraw that cancellation; None for others."""
        if self.ended is not None and self._task is not None:
            self._task.uncancel()
        return self.ended


def current_call() -> OpenCall | None:
    """Return the call that this task serves; None where access is not controlled."""
    return _current.get()


def _size(message: Any) -> int:
    """Return the bytes of a message; of a page that was cut out of its request, those of its body."""
    if isinstance(message, PageRequest):
        return len(message.body)
    return len(message) if isinstance(message, bytes) else int(message.ByteSize())


def check(principal: Principal, rule: Rule, sinks: Sequence[str]) -> None:
    """Raise `PermissionDenied` unless a principal has the right of a rule to all of ``sinks``."""
    if not sinks and not principal.may_somewhere(rule.right):
        raise PermissionDenied(principal.name, rule.right)
    for sink in sinks:
        if not principal.may(rule.right, sink):
            raise PermissionDenied(principal.name, rule.right, sink)
