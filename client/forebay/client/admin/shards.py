"""Shards: brokers with one journal, of which one serves."""

from __future__ import annotations

from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values.brokers import HandOver
from forebay.client.values.convert import value
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub


class ShardCalls:
    """Shards of the brokers of a client."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, AdminServiceStub)

    @operation
    async def hand_over(self, to: str = "", *, endpoint: str | None = None) -> HandOver:
        """Ask the owner of a shard to stop serving, and to let another broker take over at once.

        ``to`` is the endpoint of that broker as its setting ``advertise``, or ``listen`` without one, names it; empty
        for any other broker of the shard. Returns before the owner stops. Raises ``FailedPrecondition`` with the reason
        ``NO_JOURNAL``. ``endpoint`` is that of the owner, by default the first one.
        """
        chosen = endpoint or self._channels.endpoints[0]
        response = await self._service.call("HandOver", "", pb.HandOverRequest(to=to), endpoint=chosen)
        return value(HandOver, response)


class Shards(ShardCalls, Blocking):
    """Shards of the brokers of a client. Thread-safe."""
