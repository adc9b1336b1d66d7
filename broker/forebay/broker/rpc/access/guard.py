"""Interceptor that authenticates calls before decoding, and ends them at a revoked credential.

Health is open to every caller: a supervisor has no credential, and learns only whether the broker serves. Without a
file of credentials every caller may do everything; managing calls are logged all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio

from forebay.broker.core.access.credentials import TOKEN_BYTES_MAX, Credentials, proof_of
from forebay.broker.core.access.principal import Principal, Right, anonymous
from forebay.broker.core.errors import BrokerError, TokenRefused
from forebay.broker.rpc.access.audit import Audit, Caller
from forebay.broker.rpc.access.open_call import OpenCall, Rates
from forebay.broker.rpc.access.rules import RULES, Rule
from forebay.broker.rpc.transport.interceptor import abort

OPEN: Final = "/grpc.health.v1.Health/"
KEY: Final = "authorization"
SCHEME: Final = "bearer "
UNKNOWN: Final = "unknown"
"""Principal of a refused call in the audit log."""

OnRefused = Callable[[str, str], None]
_NO_RULE: Final = Rule(Right.ADMIN, lambda _: ())
"""For an rpc that the table lacks."""


class AccessGuard(grpc.aio.ServerInterceptor):
    """Access control of one server. Used on one loop."""

    def __init__(
        self,
        credentials: Credentials | None,
        clock: Callable[[], float],
        on_refused: OnRefused = lambda caller, reason: None,
    ) -> None:
        """``credentials`` None lets every caller do everything. ``clock`` is monotonic, in seconds.

        ``on_refused`` is called for each refused call with its kind of proof (see ``Proof.kind``), or ``unknown`` for a
        foreign credential, and with the reason.
        """
        self._on_refused = on_refused
        self._credentials = credentials
        self._clock = clock
        self._audit = Audit(clock)
        self._calls: set[OpenCall] = set()
        self._rates: dict[Principal, Rates] = {}

    @property
    def credentials(self) -> Credentials | None:
        """Credentials at this time; None without access control."""
        return self._credentials

    def renew(self, credentials: Credentials) -> None:
        """Accept these credentials from now on. Open calls whose credential has lost its right end at once."""
        self._credentials = credentials
        known = {one.principal for one in credentials.every}
        self._rates = {principal: rates for principal, rates in self._rates.items() if principal in known}
        for call in list(self._calls):
            call.renew(credentials.principal_of(call.proof), TokenRefused("unknown"))

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap a handler with authentication."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(OPEN):
            return handler
        rule = RULES.get(method, _NO_RULE)
        if self._credentials is None and not rule.audited:
            return handler
        token = _bearer(handler_call_details.invocation_metadata)
        if (error := self._refusal(token)) is not None:
            return _in_place_of(self._refused(method, error))
        return self._guarded(handler, method, rule, token)

    def _refusal(self, token: str | None) -> TokenRefused | None:
        """Return the reason to refuse a call by its token alone; None if there is none."""
        if self._credentials is None:
            return None
        if token is None:
            return None if self._credentials.certificates else TokenRefused("missing")
        return None if self._credentials.principal_of(proof_of(token)) else TokenRefused("unknown")

    def _refused(self, method: str, error: BrokerError) -> Callable[[Any, Any], Any]:
        async def refuse(request: Any, context: Any) -> None:
            self._on_refused(UNKNOWN, error.reason.name)
            self._audit.refused(Caller(UNKNOWN, context.peer()), method, error)
            await abort(context, error)

        return refuse

    def _guarded(self, handler: Any, method: str, rule: Rule, token: str | None) -> Any:
        """Return a handler of the same kind that runs as a call of a known principal."""
        kind = _kind(handler)
        behaviour = getattr(handler, kind)

        async def guarded(request: Any, context: Any) -> Any:
            try:
                call = self._opened(context, method, rule, token)
            except TokenRefused as error:
                await self._refused(method, error)(request, context)
                return None
            work = behaviour(request, context)
            del request  # it may be large, and is released after decoding
            return await self._run(call, work, context)

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(guarded, handler.request_deserializer, handler.response_serializer)

    async def _run(self, call: OpenCall, work: Coroutine[Any, Any, Any], context: Any) -> Any:
        self._calls.add(call)
        outcome = "OK"
        try:
            return await call.run(work)
        except BrokerError as error:
            call.refusal = error
            await abort(context, error)
        except asyncio.CancelledError:
            outcome = "CANCELLED"
            if (revoked := call.aborts()) is None:
                raise
            await abort(context, revoked)
        except grpc.aio.AbortError:
            outcome = _code(context)
            raise
        finally:
            self._calls.discard(call)
            if call.refusal is not None:
                self._on_refused(call.proof.kind, call.refusal.reason.name)
                self._audit.refused(call.caller, call.method, call.refusal)
            elif call.rule.audited and call.sinks is not None:
                self._audit.managed(call.caller, call.method, call.sinks, outcome)

    def _opened(self, context: Any, method: str, rule: Rule, token: str | None) -> OpenCall:
        """Return the call of a known principal. Raises `TokenRefused`."""
        identities = frozenset(_identities(context)) if token is None else frozenset[str]()
        proof = proof_of(token, identities)
        if self._credentials is None:
            principal = anonymous(min(identities, default="anonymous"))
        else:
            known = self._credentials.principal_of(proof)
            if known is None:
                raise TokenRefused("missing" if token is None else "unknown")
            principal = known
        rates = self._rates.get(principal)
        if rates is None:
            rates = Rates(principal, self._clock, partial(self._on_refused, proof.kind))
            if self._credentials is not None:  # their number is bounded, that of names in certificates is not
                self._rates[principal] = rates
        return OpenCall(method, rule, proof, principal, context.peer(), rates)


def _identities(context: Any) -> list[str]:
    """Return the names in the client's certificate, which TLS has verified; none without one."""
    found = context.auth_context()
    names = [*found.get("x509_subject_alternative_name", ()), *found.get("x509_common_name", ())]
    return [name.decode(errors="replace") for name in names]


def _code(context: Any) -> str:
    """Return the name of the status that a handler has set."""
    code = context.code()
    return next((one.name for one in grpc.StatusCode if code in {one, one.value[0]}), "UNKNOWN")


def _bearer(metadata: Any) -> str | None:
    """Return the token that a call brings, None where it brings none."""
    for key, value in metadata or ():
        if key == KEY and isinstance(value, str) and value[: len(SCHEME)].lower() == SCHEME:
            token = value[len(SCHEME) :].strip()
            return token if len(token) <= TOKEN_BYTES_MAX else ""
    return None


def _kind(handler: Any) -> str:
    requests = "stream" if handler.request_streaming else "unary"
    responses = "stream" if handler.response_streaming else "unary"
    return f"{requests}_{responses}"


def _in_place_of(refuse: Callable[[Any, Any], Any]) -> Any:
    """Return a handler that reads no request: gRPC reads those of unary calls before it calls a handler.

    On the wire all kinds of calls are the same, so that one handler of a stream of requests, of which none is read,
    serves for all.
    """
    return grpc.stream_stream_rpc_method_handler(refuse, None, None)
