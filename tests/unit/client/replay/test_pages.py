"""Replay of a partition, against a wire with prepared answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from forebay.client import PageReplay
from forebay.client.transport import channel
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.client.transport.threads import BlockingResponses, Threads
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.eventually import until
from tests.support.calls.wire_fake import QUICK, Handler, Silent, WireFake
from tests.support.clients.both import RUNNERS

SETTINGS = replace(QUICK, call_timeout_s=0.2)
OPENED = pb.ReplayResponse(opened=pb.ReplayOpened(start_offset=7, end_offset=7, incarnation="i"))


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(channel, "OPENING_S", SETTINGS.call_timeout_s)
    return RUNNERS[request.param]


def serve(runner: Any, scenario: Any, **handlers: Handler) -> None:
    with WireFake(**handlers) as fake:
        runner(fake.address, scenario, settings=SETTINGS)


def test_a_replay_that_is_not_answered_is_opened_again(runner: Any) -> None:
    replays = Silent(OPENED, streams=2)

    async def scenario(client: Any) -> None:
        assert [step async for step in client.replay("orders", partition=0, follow=True, start=7, end=7)] == []

    serve(runner, scenario, Replay=replays)

    assert [request.start_offset for request in replays.requests] == [7, 7, 7]


def test_a_replay_whose_headers_have_arrived_waits_for_its_first_response(runner: Any) -> None:
    replays = Silent(OPENED, streams=1, headers=True)

    async def scenario(client: Any) -> None:
        assert [step async for step in client.replay("orders", partition=0)] == []

    serve(runner, scenario, Replay=replays)

    assert len(replays.requests) == 1


def test_a_follower_without_records_survives_broken_streams_that_are_far_apart() -> None:
    now = [0.0]
    replays: list[PageReplay] = []
    starts: list[int | None] = []
    following = pb.ReplayResponse(opened=pb.ReplayOpened(start_offset=7, incarnation="i"))

    def breaking(request: pb.ReplayRequest, context: grpc.ServicerContext) -> Iterator[pb.ReplayResponse]:
        starts.append(request.start_offset if request.HasField("start_offset") else None)
        if len(starts) == 4:
            yield OPENED
            return
        yield following
        until(lambda: replays[0]._pages._opened_at is not None)
        now[0] += 1_000.0
        context.abort(grpc.StatusCode.UNAVAILABLE, "the broker restarts")

    with WireFake(Replay=breaking) as fake:
        channels = Channels([fake.address], SETTINGS)
        replays.append(PageReplay(channels, "orders", partition=0, follow=True, clock=lambda: now[0]))
        steps = list(replays[0])
        blocked(channels.close())

    assert steps == []
    assert starts == [None, 7, 7, 7]


def test_a_replay_that_is_closed_while_its_stream_is_opened_ends() -> None:
    replays: list[PageReplay] = []
    are_cancelled: list[bool] = []

    def unanswered(request: pb.ReplayRequest, context: grpc.ServicerContext) -> Iterator[pb.ReplayResponse]:
        ended = threading.Event()
        context.add_callback(ended.set)
        context.send_initial_metadata(())
        are_cancelled.append(ended.wait(20))
        yield OPENED

    class ClosingThreads(Threads):
        """Closes the replay where another thread can: after the call began and before the replay knows it."""

        def read(self, *args: Any, **options: Any) -> BlockingResponses:
            call = super().read(*args, **options)
            replays[0].close()
            return call

    with WireFake(Replay=unanswered) as fake:
        channels = Channels([fake.address], SETTINGS, ClosingThreads())
        replays.append(PageReplay(channels, "orders", partition=0, follow=True))

        assert list(replays[0]) == []
        blocked(channels.close())

    assert False not in are_cancelled  # if the request arrived at all
