"""``Usage``: no call is in progress once it has ended."""

from __future__ import annotations

import threading

import pytest

from forebay.broker.storage.errors import StoreClosed
from forebay.broker.storage.usage import Usage


def test_the_end_waits_for_the_calls_under_way() -> None:
    usage = Usage()
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with usage.call():
            inside.set()
            leave.wait()

    caller = threading.Thread(target=stay)
    closer = threading.Thread(target=usage.end)
    caller.start()
    inside.wait()
    closer.start()
    closer.join(0.05)
    waited = closer.is_alive()
    leave.set()
    closer.join()
    caller.join()

    assert waited


def test_after_the_end_no_call_is_admitted() -> None:
    usage = Usage()

    assert usage.end()
    assert not usage.end()
    with pytest.raises(StoreClosed), usage.call():
        pass


def test_a_call_that_fails_goes_out_too() -> None:
    usage = Usage()
    with pytest.raises(KeyError), usage.call():
        raise KeyError

    assert usage.end()
