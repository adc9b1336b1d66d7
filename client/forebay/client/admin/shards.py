"""Shards: their owners, and the hand-over from one broker to another."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping
from typing import Final

from forebay.client.errors import InvalidArgument
from forebay.client.settings import RetryPolicy
from forebay.client.shards.shard import RepeatedSink, Shard
from forebay.client.transport.channel import ASKING_S, Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values.brokers import HandOver
from forebay.client.values.convert import value
from forebay.errors.reasons import Reason
from forebay.shards.rendezvous import DLQ_SUFFIX, ranked
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1 import sink_service_pb2
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

SINKS_PER_CALL: Final = 1_000
ONCE: Final = RetryPolicy(tries_max=1)
"""Policy without retries: a command that looks around does not wait for an owner that is lost."""


class ShardCalls:
    """Shards of the brokers of a client."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, AdminServiceStub)
        self._sinks = Service(channels, SinkServiceStub)

    @operation
    async def list(self) -> list[Shard]:
        """Return the shards of the fleet by name, with their owners; of one broker those that it knows.

        Empty for a broker without a journal. They are a hint, read again from one of the brokers.
        """
        if self._channels.fleet is not None:
            return await self._channels.fleet.shards(again=True)
        return await self._list()

    async def _list(self) -> builtins.list[Shard]:
        response = await self._service.call(
            "ListShards", "", pb.ListShardsRequest(), endpoint=self._channels.endpoints[0]
        )
        return [value(Shard, one) for one in response.shards]

    @operation
    async def repeated(self) -> builtins.list[RepeatedSink]:
        """Return the sinks whose name exists in more than one shard, by name; every owner is asked.

        A dead-letter sink is left out if its origin is returned, and has its own name otherwise. Raises the error of an
        owner that does not answer, without a retry.
        """
        fleet = self._channels.fleet
        shards = await self._list() if fleet is None else await fleet.shards(again=True)
        found: dict[str, dict[str, Shard]] = {}
        for shard in shards if len(shards) > 1 else ():
            request = sink_service_pb2.ListSinksRequest(page_size=SINKS_PER_CALL)
            pages = self._sinks.pages(
                "ListSinks", "", request, endpoint=shard.endpoint, policy=ONCE, timeout_s=ASKING_S
            )
            async for page in pages:
                for one in page.sinks:
                    found.setdefault(one.name, {})[shard.name] = shard
        repeated = {name: holders for name, holders in found.items() if len(holders) > 1}
        return [
            RepeatedSink(name, tuple(holders[shard] for shard in _in_use_first(name, found)))
            for name, holders in sorted(repeated.items())
            if not name.endswith(DLQ_SUFFIX) or name.removesuffix(DLQ_SUFFIX) not in repeated
        ]

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


def _in_use_first(name: str, holders: Mapping[str, Collection[str]]) -> builtins.list[str]:
    """Return the shards that have a sink, the one in use first.

    That of a dead-letter sink is the shard of its origin.
    """
    origin = holders.get(name.removesuffix(DLQ_SUFFIX), ())
    return sorted(ranked(name, holders[name]), key=lambda shard: shard not in origin)


class Shards(ShardCalls, Blocking):
    """Shards of the brokers of a client. Thread-safe."""
