"""Streams of calls are in the broker's list, and a broker that ends takes none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from forebay.broker.core.errors import Draining
from forebay.broker.rpc.streams import open_stream
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.resources.streams import StreamKind
from forebay.errors.reasons import Reason
from tests.support.brokers.running import running
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
CONTEXT: Any = SimpleNamespace(peer=lambda: "ipv4:192.0.2.1:5000")


async def test_a_stream_has_the_peer_of_its_call_and_is_anonymous_without_access_control() -> None:
    async with running(bounds=Bounds(streams=1)) as broker:
        with open_stream(broker, StreamKind.REPLAY, CONTEXT, sink="orders") as stream:
            assert list(broker.streams) == [stream]
            assert (stream.peer, stream.principal, stream.sink) == ("ipv4:192.0.2.1:5000", "anonymous", "orders")
            with refusal(Reason.TOO_MANY_STREAMS), open_stream(broker, StreamKind.REPLAY, CONTEXT):
                raise AssertionError("it is open")


async def test_a_draining_broker_opens_no_stream() -> None:
    async with running() as broker:
        await broker.drain()

        with pytest.raises(Draining), open_stream(broker, StreamKind.WATCH, CONTEXT):
            raise AssertionError("it is open")
