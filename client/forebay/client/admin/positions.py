"""Saved positions in the brokers of a client, each in the broker of its sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from forebay.client.positions.position import PositionKey
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels
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


class Positions:
    """Saved positions. Thread-safe."""

    def __init__(self, channels: Channels, *, timeout_s: float | None = None) -> None:
        """``timeout_s`` is the time limit of a call, by default that of the client."""
        self._channels = channels
        self._service = Service(channels, PositionServiceStub)
        self._timeout_s = timeout_s
        self._policy = None if timeout_s is None else RetryPolicy(budget_s=timeout_s)

    def get(self, key: PositionKey) -> StoredPosition | None:
        """Return a position; None if there is none. Raises ``PositionDamaged``."""
        response = self._call("ReadPosition", key.sink, pb.ReadPositionRequest(key=_message(key)))
        return _stored(response.position) if response.HasField("position") else None

    def write(self, key: PositionKey, document: bytes, *, expected: str = "") -> str:
        """Write a document if the stored version is ``expected``, durably; return the new version.

        An empty one expects no position. Raises ``PositionConflict``, ``SinkNotFound``, ``PositionDamaged``.
        """
        request = pb.WritePositionRequest(key=_message(key), document=document, expected_version=expected)
        return str(self._call("WritePosition", key.sink, request).version)

    def delete(self, key: PositionKey) -> None:
        """Delete a position, durably. No effect if there is none."""
        self._call("DeletePosition", key.sink, pb.DeletePositionRequest(key=_message(key)))

    def list(self, prefix: str = "") -> Iterator[StoredPosition]:
        """Yield the positions whose ``namespace/consumer/sink/partition`` begins with ``prefix``.

        They are in order within each broker.
        """
        for endpoint in self._channels.endpoints:
            request = pb.ListPositionsRequest(prefix=prefix, page_size=PAGE_SIZE)
            while True:
                response = self._call("ListPositions", "", request, endpoint=endpoint)
                yield from map(_stored, response.positions)
                if not response.next_page_token:
                    break
                request.page_token = response.next_page_token

    def _call(self, rpc: str, sink: str, request: Any, *, endpoint: str | None = None) -> Any:
        def attempt(timeout_s: float) -> Any:
            stub = (
                self._service.stub(sink) if endpoint is None else self._channels.stub_at(PositionServiceStub, endpoint)
            )
            limit_s = timeout_s if self._timeout_s is None else min(timeout_s, self._timeout_s)
            return getattr(stub, rpc)(request, timeout=limit_s)

        return self._service.unary.call(rpc, attempt, policy=self._policy)[0]


def _message(key: PositionKey) -> pb.PositionKey:
    return pb.PositionKey(namespace=key.namespace, consumer=key.consumer, sink=key.sink, partition=key.partition)


def _stored(message: pb.StoredPosition) -> StoredPosition:
    key = message.key
    return StoredPosition(
        PositionKey(key.namespace, key.consumer, key.sink, key.partition), message.document, message.version
    )
