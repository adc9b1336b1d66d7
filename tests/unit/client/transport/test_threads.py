"""A background thread that ends unexpectedly tells those who wait for it."""

from __future__ import annotations

import logging

import pytest

from forebay.client import ClientFault
from forebay.client.transport.threads import GuardedThread


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
