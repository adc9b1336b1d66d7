"""Watches of the health are bounded; they are open to strangers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from forebay.broker.rpc.transport.health import BoundedHealth
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
REQUEST = health_pb2.HealthCheckRequest()


class Context:
    """As much of gRPC's context as a watch uses."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    async def write(self, response: Any) -> None:
        self.written.set()


async def test_watches_end_with_the_broker() -> None:
    health, context = BoundedHealth(), Context()
    watching = asyncio.ensure_future(health.Watch(REQUEST, context))
    await context.written.wait()

    health.end_watches()
    async with asyncio.timeout(5):
        await watching
        await health.Watch(REQUEST, Context())

    assert health.watches == 0


async def test_one_watch_too_many_is_refused_until_another_one_has_ended() -> None:
    health, context = BoundedHealth(watches_max=1), Context()
    watching = asyncio.ensure_future(health.Watch(REQUEST, context))
    await context.written.wait()
    with refusal(Reason.TOO_MANY_STREAMS):
        await health.Watch(REQUEST, Context())

    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert health.watches == 0
