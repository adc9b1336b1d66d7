"""A background thread that ends unexpectedly tells those who wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable

import grpc
import pytest

from forebay.client import BrokerUnavailable, ClientFault
from forebay.client.transport.io import Responses
from forebay.client.transport.operations import blocked
from forebay.client.transport.threads import THREADS, GuardedThread


def ended(work: object) -> list[ClientFault]:
    faults: list[ClientFault] = []
    thread = GuardedThread(work, name="forebay-test", on_fault=faults.append)  # type: ignore[arg-type]  # raises first
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return faults


def test_an_end_that_was_meant_is_no_fault() -> None:
    assert ended(lambda: None) == []


def test_an_unexpected_end_is_a_typed_error_that_names_kind_and_place_and_quotes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        (fault,) = ended(lambda: int("a payload"))

    assert fault.reason == "CLIENT_FAULT"
    assert not fault.retryable
    assert isinstance(fault.__cause__, ValueError)
    for text in (str(fault), caplog.text):
        assert "ValueError" in text
        assert "test_threads.py" in text
        assert "payload" not in text
    assert "thread=forebay-test" in caplog.text


class SilentCall:
    """A call that gRPC has lost: it is answered only by its end."""

    def __init__(self, answers: int = 0) -> None:
        self._answers = answers
        self.cancelled = threading.Event()

    def initial_metadata(self) -> None:
        assert self.cancelled.wait(10)

    def __next__(self) -> bytes:
        if self._answers:
            self._answers -= 1
            return b"answer"
        assert self.cancelled.wait(10)
        raise grpc.RpcError

    def cancel(self) -> None:
        self.cancelled.set()


async def no_requests() -> AsyncGenerator[bytes, None]:
    for request in list[bytes]():
        yield request


def read(call: SilentCall, opening_s: float) -> Responses:
    return THREADS.read(lambda request, timeout: call, b"", opening_s=opening_s)


def exchange(call: SilentCall, opening_s: float) -> Responses:
    return THREADS.exchange(lambda requests: call, no_requests(), opening_s)


@pytest.mark.parametrize("start", [read, exchange])
def test_a_stream_that_is_not_answered_in_time_is_cancelled_and_may_be_tried_again(
    start: Callable[[SilentCall, float], Responses],
) -> None:
    call = SilentCall()
    responses = start(call, 0.01)

    with pytest.raises(BrokerUnavailable, match=r"did not answer the start of a stream within 0\.01 s") as caught:
        blocked(responses.__anext__())

    assert call.cancelled.is_set()
    assert caught.value.retryable


def test_a_stream_that_was_answered_or_cancelled_has_no_time_limit() -> None:
    answered, cancelled = SilentCall(answers=1), SilentCall()
    before = threading.active_count()
    responses = exchange(answered, 60.0)
    assert blocked(responses.__anext__()) == b"answer"
    others = exchange(cancelled, 60.0)
    others.cancel()
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10)

    assert not answered.cancelled.is_set()
    assert threading.active_count() <= before
    with pytest.raises(grpc.RpcError):
        blocked(others.__anext__())
