"""Shards: their owners, and the hand-over from one broker to another."""

from __future__ import annotations

from forebay.client.errors import InvalidArgument
from forebay.client.shards.shard import Shard
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values.brokers import HandOver
from forebay.client.values.convert import value
from forebay.errors.reasons import Reason
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub


class ShardCalls:
    """Shards of the brokers of a client."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, AdminServiceStub)

    @operation
    async def list(self) -> list[Shard]:
        """Return the shards of the fleet by name, with their owners; of one broker those that it knows.

        Empty for a broker without a journal. They are a hint, read again from one of the brokers.
        """
        if self._channels.fleet is not None:
            return await self._channels.fleet.shards(again=True)
        response = await self._service.call(
            "ListShards", "", pb.ListShardsRequest(), endpoint=self._channels.endpoints[0]
        )
        return [value(Shard, one) for one in response.shards]

    @operation
    async def hand_over(self, to: str = "", *, shard: str = "", endpoint: str | None = None) -> HandOver:
        """Ask the owner of a shard to stop serving, and to let another broker take over at once.

        ``to`` is the endpoint of that broker as its setting ``advertise``, or ``listen`` without one, names it; empty
        for any other broker of the shard. Returns before the owner stops. Raises ``FailedPrecondition`` with the reason
        ``NO_JOURNAL``. ``endpoint`` is that of the owner, by default the first one; in a fleet it is that of the owner
        of ``shard``. Raises ``INVALID_SETTING`` if the fleet has no such shard.
        """
        chosen = endpoint or await self._owner_of(shard)
        response = await self._service.call("HandOver", "", pb.HandOverRequest(to=to), endpoint=chosen)
        return value(HandOver, response)

    async def _owner_of(self, shard: str) -> str:
        if self._channels.fleet is None:
            return self._channels.endpoints[0]
        owners = {one.name: one.endpoint for one in await self._channels.fleet.shards(again=True)}
        if shard not in owners:
            known = ", ".join(sorted(owners))
            raise InvalidArgument(
                f"shard = {shard!r}: must be one of {known}", reason=Reason.INVALID_SETTING, facts={"field": "shard"}
            )
        return owners[shard]


class Shards(ShardCalls, Blocking):
    """Shards of the brokers of a client. Thread-safe."""
