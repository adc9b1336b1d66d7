"""Interceptor that authorizes decoded requests of known principals, and applies their rate limits.

It runs after the one that decodes requests, so that a right is checked against the request that the service executes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import grpc.aio

from forebay.broker.core.access.principal import Principal, Right
from forebay.broker.rpc.access.open_call import OpenCall, current_call
from forebay.broker.rpc.access.rules import FILTERED, RULES

OURS: Final = "/forebay."


class Authorizer(grpc.aio.ServerInterceptor):
    """Authorization of one server's calls."""

    def __init__(self, *, controlled: bool) -> None:
        """``controlled`` is false where every caller may do everything: only audited calls are examined."""
        self._controlled = controlled
        self._wrapped: dict[str, tuple[Any, Any]] = {}
        """Handler and its authorizing wrapper, by method. Both are the same for each call."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap a handler with authorization."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        rule = RULES.get(method)
        if handler is None or not method.startswith(OURS) or not (self._controlled or rule is None or rule.audited):
            return handler
        found, wrapped = self._wrapped.get(method, (None, None))
        if found is not handler:
            kind, behaviour = _authorizing(handler)
            make = getattr(grpc, f"{kind}_rpc_method_handler")
            wrapped = make(behaviour, handler.request_deserializer, handler.response_serializer)
            self._wrapped[method] = handler, wrapped
        return wrapped


class CallContext:
    """Context of a stream that authorizes the first request and charges messages.

    Everything else is passed on to gRPC.
    """

    def __init__(self, context: Any, call: OpenCall) -> None:
        self._context = context
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """Return the next request, or EOF. Raises ``PermissionDenied``."""
        await self._call.rates.wait()
        request = await self._context.read()
        if request is grpc.aio.EOF:
            return request
        if self._call.sinks is None:
            self._call.authorize(request)
        self._call.rates.charge(request)
        return request

    async def write(self, message: Any) -> None:
        """Write an answer."""
        await self._call.rates.wait()
        self._call.rates.charge(message)
        await self._context.write(message)


def _authorizing(handler: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    if handler.unary_unary is not None:
        return "unary_unary", _unary(handler.unary_unary)
    if handler.unary_stream is not None:
        return "unary_stream", _steps(handler.unary_stream)
    return "stream_stream", _stream(handler.stream_stream)


def _unary(behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def call(request: Any, context: Any) -> Any:
        known = current_call()
        if known is None:
            return await behaviour(request, context)
        known.authorize(request)
        await known.rates.wait_or_refuse()
        known.rates.charge(request)
        response = await behaviour(request, context)
        return _visible(response, *FILTERED[known.method], known.principal) if known.method in FILTERED else response

    return call


def _steps(behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a behaviour that writes its answers itself, whether the guarded one does or yields them."""

    async def call(request: Any, context: Any) -> None:
        known = current_call()
        if known is not None:
            known.authorize(request)
            await known.rates.wait_or_refuse()
            known.rates.charge(request)
            context = CallContext(context, known)
        work = behaviour(request, context)
        if not isinstance(work, AsyncIterator):
            await work
            return
        async for step in work:
            await context.write(step)

    return call


def _stream(behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def call(requests: Any, context: Any) -> Any:
        known = current_call()
        return await behaviour(requests, context if known is None else CallContext(context, known))

    return call


def _visible(response: Any, field: str, sink_of: Callable[[Any], str], principal: Principal) -> Any:
    """Return a list without the elements of sinks that a principal may not view."""
    elements = getattr(response, field)
    shown = [element for element in elements if principal.may(Right.VIEW, sink_of(element))]
    if len(shown) == len(elements):
        return response
    return type(response)(**{field: shown}, next_page_token=response.next_page_token)
