"""Interceptor that reads requests within their bounds, and turns errors into statuses.

So no servicer has a `try`. On the wire all kinds of calls are the same: unary calls are served as streams of one
request, since gRPC reads the request of a unary call before it calls a handler. So each call is known from its headers
on, and can be ended while its request is incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import grpc
import grpc.aio

from forebay.broker.core.errors import BrokerError, InvalidRequest
from forebay.broker.core.resources.unread import Intake
from forebay.broker.rpc.convert import traceparent
from forebay.broker.rpc.pages.frames import serialized
from forebay.broker.rpc.requests.reader import Read, reader_of
from forebay.broker.rpc.status import code_of, status_of
from forebay.broker.rpc.transport import peers
from forebay.broker.runtime.resources.connections import Caller, Connections
from forebay.broker.runtime.resources.supervision import detached

_log: Final = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Any]
OURS: Final = "/forebay."
KINDS: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
LARGE_BYTES: Final = 64 << 10
"""Size above which requests of unary calls are decoded in a thread, so that the loop stays responsive."""
ABORT_S: Final = 3.0
"""Time that a peer has to read the status of its call, after everything that waits before it."""
LARGE_AT_ONCE: Final = 2
"""Large requests decoded at the same time; others wait as bytes."""


class StatusInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor that reads requests, and ends a call that raised a ``BrokerError`` with its status.

    The call's connection is in use until then.
    """

    def __init__(
        self, connections: Connections, *, on_answered: Callable[[str, str, float, str], None] = lambda *_: None
    ) -> None:
        """``on_answered`` gets each call with one request and one response.

        Its arguments are method, status, seconds, and the trace context that the caller sent.
        """
        self._connections = connections
        self._on_answered = on_answered
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._wrapped: dict[str, tuple[Any, Callable[[], Any]]] = {}
        """Handler and its wrapper for one call, by method."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap a handler: all requests are bounded, and the answers of our own services may be bytes."""
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return handler
        method = handler_call_details.method
        found, wrapped = self._wrapped.get(method, (None, None))
        if found is not handler or wrapped is None:
            wrapped = self._wrap(method, handler)
            self._wrapped[method] = handler, wrapped
        return wrapped()

    def _wrap(self, method: str, handler: Any) -> Callable[[], Any]:
        read: Read = reader_of(method, handler.request_deserializer)
        is_ours = method.startswith(OURS)
        write = serialized if is_ours else handler.response_serializer
        kind = next(kind for kind in KINDS if getattr(handler, kind) is not None)
        behaviour = getattr(handler, kind)
        if kind == "stream_stream":
            behaviour = self._refusing(_with_headers(behaviour))
            return lambda: self._stream(behaviour, read, write, is_ours=is_ours)
        if is_ours and kind == "unary_unary":
            behaviour = self._timed(method.removeprefix("/"), behaviour)
        call = self._unary(behaviour, read, is_ours=is_ours)
        call = self._refusing(_with_headers(call) if kind.endswith("stream") else call)
        wrapped = _handler(f"stream_{kind.partition('_')[2]}")(call, None, write)
        return lambda: wrapped

    def _stream(self, behaviour: Handler, read: Read, write: Any, *, is_ours: bool) -> Any:
        """Return the handler of one call that counts what it reads."""
        intake = Intake()

        def counted(message: bytes) -> Any:
            intake.messages += 1
            intake.bytes += len(message)
            return read(message)

        async def call(requests: Any, context: Any) -> Any:
            nonlocal intake
            with self._connections.call(peers.address(context.peer())) as caller:
                intake = caller.intake
                return await self._in_use(caller, behaviour(requests, context), is_ours=is_ours)

        return _handler("stream_stream")(call, counted, write)

    def _unary(self, behaviour: Handler, read: Read, *, is_ours: bool) -> Handler:
        """Return a behaviour that reads one request as bytes, so that its errors can be answered."""

        async def call(requests: Any, context: Any) -> Any:
            with self._connections.call(peers.address(context.peer())) as caller:
                size = 0
                try:
                    with caller.reception():
                        message = await context.read()
                        if message is grpc.aio.EOF:
                            raise InvalidRequest("the call has no request")
                        size = len(message)
                        if size > LARGE_BYTES:
                            await self._large.acquire()
                    request = await self._decoded(read, message)
                    work = behaviour(request, context)
                    del message, request  # up to 32 MiB, not needed after decoding
                    return await self._in_use(caller, _results(work, context), is_ours=is_ours)
                finally:
                    caller.intake.bytes += size
                    caller.intake.messages += 1

        return call

    def _timed(self, method: str, behaviour: Handler) -> Handler:
        """Return a behaviour that reports its duration and its status."""

        async def call(request: Any, context: Any) -> Any:
            began, status = time.perf_counter(), "CANCELLED"
            work = behaviour(request, context)
            del request
            try:
                result = await work
                status = "OK"
                return result
            except BrokerError as error:
                status = code_of(error).name
                raise
            finally:
                seconds = time.perf_counter() - began
                self._on_answered(method, status, seconds, traceparent(context.invocation_metadata()))

        return call

    async def _decoded(self, read: Read, message: bytes) -> Any:
        """Return the request of a unary call; decode a large one, which has its turn, in a thread.

        A call that is cancelled gives its turn up when the thread has ended: it takes as much memory until then.
        """
        if len(message) <= LARGE_BYTES:
            return read(message)
        return await asyncio.shield(detached(self._decoded_in_thread(read, message)))

    async def _decoded_in_thread(self, read: Read, message: bytes) -> Any:
        try:
            return await asyncio.to_thread(read, message)
        finally:
            self._large.release()

    async def _in_use(self, caller: Caller, work: Coroutine[Any, Any, Any], *, is_ours: bool) -> Any:
        """Return the result of a call; unless it is of health or reflection, its connection is in use."""
        if not is_ours:
            return await work
        self._connections.enter(caller)
        try:
            return await work
        finally:
            self._connections.leave(caller)

    def _refusing(self, behaviour: Handler) -> Handler:
        """Return a behaviour that turns errors into statuses."""

        async def call(request: Any, context: Any) -> Any:
            work = behaviour(request, context)
            del request
            try:
                return await _results(work, context)
            except BrokerError as error:
                await self._abort(context, error)
            except grpc.aio.InternalError as error:
                raise _gone(error) from error

        return call

    async def _abort(self, context: Any, error: BrokerError) -> None:
        """End a call with its status; a peer that does not read it loses its connection, to free memory."""
        ending = asyncio.timeout(ABORT_S)
        try:
            async with ending:
                await abort(context, error)
        except TimeoutError:
            if not ending.expired():
                raise
            address = peers.address(context.peer())
            if address is not None:
                self._connections.close(address)
            raise asyncio.CancelledError from None


def _with_headers(behaviour: Handler) -> Handler:
    """Return the behaviour of a stream that always sends its headers first.

    gRPC sends them with the first message otherwise. A call that is cancelled during that write cannot be ended with a
    status any more, since the library would send them a second time: its peer would wait forever.
    """

    async def call(request: Any, context: Any) -> Any:
        sending = detached(context.send_initial_metadata(()))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait([sending], timeout=ABORT_S)
            await asyncio.gather(*done, return_exceptions=True)  # the peer may be gone
            raise
        work = behaviour(request, context)
        del request
        return await _results(work, context)

    return call


def _handler(kind: str) -> Callable[..., Any]:
    make: Callable[..., Any] = getattr(grpc, f"{kind}_rpc_method_handler")
    return make


async def _results(work: Any, context: Any) -> Any:
    """Return the result of a call; a stream of results is written one by one."""
    if not isinstance(work, AsyncIterator):
        return await work
    async for step in work:
        await context.write(step)
    return None


def _gone(error: grpc.aio.InternalError) -> asyncio.CancelledError:
    """Return the cancellation for a failed write or status: the caller is gone, and it is pending."""
    _log.info("a call ended during a write cause=%s", error)
    return asyncio.CancelledError()


async def abort(context: Any, error: BrokerError) -> None:
    """End a call with the status of an error. Never returns."""
    details = ("grpc-status-details-bin", status_of(error).SerializeToString())
    try:
        await context.abort(code_of(error), str(error), (details,))
    except grpc.aio.InternalError as failure:
        raise _gone(failure) from failure
    except grpc.aio.AbortError as ended:
        asyncio.get_running_loop().call_soon(_release, ended)
        raise


def _release(ended: BaseException | None) -> None:
    """Release the frames that an error passed.

    The library keeps the error that ended a call, and the error refers to the call: the objects of the frames, even a
    request of many megabytes, would stay until a garbage collection finds the cycle.
    """
    while ended is not None:
        ended.__traceback__ = None
        ended = ended.__context__
