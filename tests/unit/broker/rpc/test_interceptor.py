"""What a call ends with when it is refused; that each refusal has its status is a test of the contract."""

from __future__ import annotations

import asyncio
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

    async def abort(self, code: grpc.StatusCode, text: str, metadata: tuple[tuple[str, bytes], ...]) -> NoReturn:
        """End the call, as the library does."""
        if self._gone:
            raise grpc.aio.InternalError('Failed "execute_batch"')
        self.code = code
        raise grpc.aio.AbortError("Locally aborted.")


async def test_a_refusal_ends_the_call_with_its_code() -> None:
    caller = Caller(gone=False)

    with pytest.raises(grpc.aio.AbortError):
        await abort(caller, Draining())

    assert caller.code is grpc.StatusCode.UNAVAILABLE


async def test_a_refusal_that_nobody_waits_for_any_more_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError):
        await abort(Caller(gone=True), Draining())

    assert not [line for line in caplog.records if line.levelname in {"WARNING", "ERROR"}]
