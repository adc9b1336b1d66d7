"""Replay of a partition, against a wire with prepared answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.client.transport import channel
from forebay.v1 import buffer_service_pb2 as pb
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
