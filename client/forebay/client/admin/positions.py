"""Saved positions in the brokers of a client, each in the broker of its sink."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

from forebay.client.positions.position import PositionKey
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.v1 import position_service_pb2 as pb
from forebay.v1.position_service_pb2_grpc import PositionServiceStub

PAGE_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """Document of a consumer, and its version."""

    key: PositionKey
    document: bytes
    version: str


class PositionCalls:
    """Saved positions."""

    def __init__(self, channels: Channels, *, timeout_s: float | None = None) -> None:
        """``timeout_s`` is the time limit of a call, by default that of the client."""
        self._channels = channels
        self._service = Service(channels, PositionServiceStub)
        self._limits: dict[str, Any] = {
            "timeout_s": timeout_s,
            "policy": None if timeout_s is None else RetryPolicy(budget_s=timeout_s),
        }

    @operation
    async def get(self, key: PositionKey) -> StoredPosition | None:
        """Return a position; None if there is none. Raises ``PositionDamaged``."""
        response = await self._service.call(
            "ReadPosition", key.sink, pb.ReadPositionRequest(key=_message(key)), **self._limits
        )
        return _stored(response.position) if response.HasField("position") else None

    @operation
    async def write(self, key: PositionKey, document: bytes, *, expected: str = "") -> str:
        """Write a document if the stored version is ``expected``, durably; return the new version.

        An empty one expects no position. Raises ``PositionConflict``, ``SinkNotFound``, ``PositionDamaged``.
        """
        request = pb.WritePositionRequest(key=_message(key), document=document, expected_version=expected)
        response = await self._service.call("WritePosition", key.sink, request, **self._limits)
        return str(response.version)

    @operation
    async def delete(self, key: PositionKey) -> None:
        """Delete a position, durably. No effect if there is none."""
        await self._service.call(
            "DeletePosition", key.sink, pb.DeletePositionRequest(key=_message(key)), **self._limits
        )

    @stream
    async def list(self, prefix: str = "") -> AsyncGenerator[StoredPosition, None]:
        """Yield the positions whose ``namespace/consumer/sink/partition`` begins with ``prefix``.

        They are in order within each broker.
        """
        for endpoint in await self._channels.brokers():
            request = pb.ListPositionsRequest(prefix=prefix, page_size=PAGE_SIZE)
            async for page in self._service.pages("ListPositions", "", request, endpoint=endpoint, **self._limits):
                for one in page.positions:
                    yield _stored(one)


class Positions(PositionCalls, Blocking):
    """Saved positions. Thread-safe."""


def _message(key: PositionKey) -> pb.PositionKey:
    return pb.PositionKey(namespace=key.namespace, consumer=key.consumer, sink=key.sink, partition=key.partition)


def _stored(message: pb.StoredPosition) -> StoredPosition:
    key = message.key
    return StoredPosition(
        PositionKey(key.namespace, key.consumer, key.sink, key.partition), message.document, message.version
    )
