"""List of connections: by peer, in pages, each with its streams."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.broker.core.resources.unread import Traffic
from forebay.broker.rpc.connections import list_connections
from forebay.broker.rpc.streams import open_stream
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.connections import ConnectionState
from forebay.broker.runtime.resources.streams import CreditUse, StreamKind
from forebay.errors.reasons import Reason
from forebay.v1 import admin_service_pb2 as pb
from tests.support.brokers.running import running
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


def state(host: str, port: int, **facts: Any) -> ConnectionState:
    values = {"opened_at": 0.0, "used_at": None, "calls": 0, "open": 0, "traffic": Traffic(), "unread": 0}
    return ConnectionState(host, port, **{**values, **facts})


def listed(broker: Broker, states: Sequence[ConnectionState], **request: Any) -> pb.ListConnectionsResponse:
    connections: Any = states  # all that is used of them is their iteration
    return list_connections(broker, connections, pb.ListConnectionsRequest(**request))


async def test_a_connection_has_the_streams_of_its_peer_the_oldest_first() -> None:
    context: Any = SimpleNamespace(peer=lambda: "ipv6:%5B2001:db8::1%5D:5000")
    async with running() as broker:
        with (
            open_stream(broker, StreamKind.DELIVER, context, sink="orders") as deliver,
            open_stream(broker, StreamKind.REPLAY, context, sink="orders") as replay,
        ):
            deliver.opened_at_us = replay.opened_at_us - 1
            deliver.subscription, deliver.client_id = "billing", "worker-1"
            deliver.credit = lambda: CreditUse(3, 1_000)
            deliver.count(7, 700)

            [found] = listed(broker, [state("2001:db8::1", 5000, calls=2, open=3, unread=9)]).connections

    assert (found.peer, found.open_calls, found.unread_bytes) == ("[2001:db8::1]:5000", 3, 9)
    first, second = found.streams
    assert (first.method, first.sink, first.subscription) == ("Deliver", "orders", "billing")
    assert first.client_id == "worker-1"
    assert (first.records, first.bytes, first.in_flight, first.credit_records) == (7, 700, 3, 1_000)
    assert (second.method, second.principal, second.credit_records) == ("Replay", "anonymous", 0)


async def test_times_are_those_of_the_wall_clock() -> None:
    async with running() as broker:
        now, wall_us = broker.clock.monotonic(), broker.clock.wall_us()
        states = [
            state("a", 1, opened_at=now - 10, used_at=now - 4),
            state("b", 1, opened_at=now - 10, used_at=now - 4, calls=1),
            state("c", 1, opened_at=now - 10),
        ]

        idle, busy, unused = listed(broker, states).connections

    assert idle.opened_at.ToMicroseconds() == pytest.approx(wall_us - 10_000_000, abs=2)
    assert idle.used_at.ToMicroseconds() == pytest.approx(wall_us - 4_000_000, abs=2)
    assert busy.used_at.ToMicroseconds() == pytest.approx(wall_us, abs=2)
    assert not unused.HasField("used_at")


async def test_a_stream_whose_connection_was_not_seen_yet_is_listed() -> None:
    context: Any = SimpleNamespace(peer=lambda: "unix:/run/forebay.sock")
    async with running() as broker:
        with open_stream(broker, StreamKind.WATCH, context, sink="orders"):
            [found] = listed(broker, []).connections

    assert (found.peer, found.HasField("opened_at"), len(found.streams)) == ("unix:/run/forebay.sock", False, 1)


async def test_the_list_has_pages() -> None:
    states = [state("a", port) for port in (3, 1, 2)]
    async with running() as broker:
        first = listed(broker, states, page_size=2)
        second = listed(broker, states, page_size=2, page_token=first.next_page_token)

        assert [one.peer for one in first.connections] == ["a:1", "a:2"]
        assert [one.peer for one in second.connections] == ["a:3"]
        assert second.next_page_token == ""
        with refusal(Reason.INVALID_PAGE_TOKEN):
            listed(broker, states, page_token="é")
