"""Status of a rejected call; tests/contract covers the status of each error."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import grpc
import grpc.aio
import pytest

from forebay.broker.core.errors import Draining, SinkNotFound
from forebay.broker.core.resources.connections import ConnectionLimits
from forebay.broker.rpc.transport import interceptor
from forebay.broker.rpc.transport.interceptor import LARGE_AT_ONCE, LARGE_BYTES, StatusInterceptor, abort
from forebay.broker.runtime.resources.connections import Connections

pytestmark = pytest.mark.anyio


class Caller:
    """The library's side of a call: takes one status, or is gone."""

    def __init__(self, *, gone: bool) -> None:
        self._gone = gone
        self.code: grpc.StatusCode | None = None
        self.kept: BaseException | None = None
        """The library keeps the error, and the error the call."""

    async def abort(self, code: grpc.StatusCode, text: str, metadata: tuple[tuple[str, bytes], ...]) -> NoReturn:
        """End the call, as the library does."""
        if self._gone:
            raise grpc.aio.InternalError('Failed "execute_batch"')
        self.code = code
        self.kept = grpc.aio.AbortError("Locally aborted.")
        raise self.kept


async def test_a_refusal_ends_the_call_with_its_code() -> None:
    caller = Caller(gone=False)

    with pytest.raises(grpc.aio.AbortError):
        await abort(caller, Draining())

    assert caller.code is grpc.StatusCode.UNAVAILABLE


async def test_a_refusal_that_has_no_waiter_any_more_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError):
        await abort(Caller(gone=True), Draining())

    assert not [line for line in caplog.records if line.levelname in {"WARNING", "ERROR"}]


class Request:
    """Something large."""


async def test_a_refused_call_lets_its_request_go_at_once_and_not_when_garbage_is_collected() -> None:
    caller = Caller(gone=False)
    seen: list[weakref.ref[Request]] = []

    async def call() -> None:
        request = Request()
        seen.append(weakref.ref(request))
        try:
            raise Draining
        except Draining as refusal:
            await abort(caller, refusal)

    gc.disable()
    try:
        with suppress(grpc.aio.AbortError):
            await call()
        await asyncio.sleep(0)
        assert caller.kept is not None
        assert [found() for found in seen] == [None]
    finally:
        gc.enable()


class Stream:
    """A call whose headers take until ``sent`` is set."""

    def __init__(self) -> None:
        self.begun, self.sent = asyncio.Event(), asyncio.Event()
        self.headers = 0
        self.fails = False

    def peer(self) -> str:
        return ""

    async def send_initial_metadata(self, metadata: object) -> None:
        self.begun.set()
        await self.sent.wait()
        if self.fails:
            raise grpc.aio.InternalError("the peer is gone")
        self.headers += 1


class UnaryCall(Stream):
    """A call with one request, whose headers need no wait."""

    def __init__(self, metadata: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.ended: grpc.StatusCode | None = None
        self._metadata = metadata

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return self._metadata

    async def read(self) -> bytes:
        return b""

    async def abort(self, code: grpc.StatusCode, details: str, trailing: object) -> None:
        self.ended = code
        raise grpc.aio.AbortError


@pytest.mark.parametrize(
    ("failure", "status"),
    [(None, "OK"), (SinkNotFound("orders"), "NOT_FOUND"), (asyncio.CancelledError(), "CANCELLED")],
    ids=["result", "error", "cancelled"],
)
async def test_a_call_with_one_response_is_timed_with_its_status_and_the_trace_of_its_caller(
    failure: BaseException | None, status: str
) -> None:
    async def serve(request: bytes, context: object) -> bytes:
        if failure is not None:
            raise failure
        return b"done"

    async def found(details: object) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(serve, request_deserializer=bytes)

    class Details:
        method = "/forebay.v1.Unbounded/Call"

    answered: list[tuple[str, str, bool, str]] = []
    wrapping = StatusInterceptor(
        Connections(ConnectionLimits(1, 1, 1), lambda: 0.0),
        on_answered=lambda method, status, seconds, trace: answered.append((method, status, seconds >= 0, trace)),
    )
    handler = await wrapping.intercept_service(found, Details())
    with suppress(grpc.aio.AbortError, asyncio.CancelledError):
        await handler.stream_unary(None, UnaryCall([("user-agent", "x"), ("traceparent", "00-7-8-01")]))

    assert answered == [("forebay.v1.Unbounded/Call", status, True, "00-7-8-01")]


async def streaming() -> tuple[Stream, asyncio.Task[None]]:
    """A stream that has begun, and its task."""

    async def serve(requests: object, context: object) -> None:
        await asyncio.Event().wait()

    async def found(details: object) -> grpc.RpcMethodHandler[object, object]:
        return grpc.stream_stream_rpc_method_handler(serve)

    class Details:
        method = "/forebay.v1.BufferService/Deliver"

    wrapping = StatusInterceptor(Connections(ConnectionLimits(1, 1, 1), lambda: 0.0))
    handler = await wrapping.intercept_service(found, Details())
    stream = Stream()
    task = asyncio.ensure_future(handler.stream_stream(None, stream))
    await stream.begun.wait()
    return stream, task


async def test_a_large_request_that_is_cancelled_keeps_its_turn_until_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interceptor, "reader_of", lambda method, decode: decode)
    decoding, go_on = threading.Semaphore(0), threading.Event()
    begun = 0

    def read(message: bytes) -> bytes:
        nonlocal begun
        begun += 1
        decoding.release()
        assert go_on.wait(20)
        return message

    async def serve(request: bytes, context: object) -> bytes:
        return b"done"

    async def found(details: object) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(serve, request_deserializer=read)

    class Details:
        method = "/forebay.v1.EpochService/CommitEpoch"

    class Large(UnaryCall):
        async def read(self) -> bytes:
            return bytes(LARGE_BYTES + 1)

    wrapping = StatusInterceptor(Connections(ConnectionLimits(1, 1, 1), lambda: 0.0))
    handler = await wrapping.intercept_service(found, Details())
    calls = [asyncio.ensure_future(handler.stream_unary(None, Large())) for _ in range(LARGE_AT_ONCE)]
    for _ in calls:
        assert await asyncio.to_thread(decoding.acquire, timeout=20)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    later = asyncio.ensure_future(handler.stream_unary(None, Large()))
    for _ in range(20):
        await asyncio.sleep(0)
    before = begun
    go_on.set()

    assert before == LARGE_AT_ONCE
    assert await later == b"done"


async def test_a_stream_that_is_cancelled_while_its_headers_are_sent_has_sent_them_when_it_ends() -> None:
    stream, task = await streaming()
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    early = task.done()

    stream.sent.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (early, stream.headers) == (False, 1)


async def test_a_stream_whose_peer_does_not_take_the_headers_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptor, "ABORT_S", 0.01)
    stream, task = await streaming()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert stream.headers == 0


async def test_headers_that_fail_after_their_call_has_ended_are_no_error_of_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interceptor, "ABORT_S", 0.01)
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    stream, task = await streaming()
    stream.fails = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    stream.sent.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del stream, task
    gc.collect()

    assert unheard == []
