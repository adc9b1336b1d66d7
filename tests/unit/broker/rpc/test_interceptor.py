"""What a call ends with when it is refused; that each refusal has its status is a test of the contract."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import NoReturn

import grpc
import grpc.aio
import pytest

from holdfast.broker.core.errors import Draining
from holdfast.broker.rpc.interceptor import abort

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


async def test_a_refusal_that_nobody_waits_for_any_more_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
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
