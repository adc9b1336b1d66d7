"""PositionService: saved positions of consumers. Only converts and delegates."""

from __future__ import annotations

from typing import Any, Final

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.positions.table import PositionKey, parse_key, version_of
from forebay.broker.runtime.broker import Broker
from forebay.errors.reasons import Reason
from forebay.v1 import position_service_pb2 as pb
from forebay.v1 import position_service_pb2_grpc as pb_grpc

LIST: Final = (100, 1_000)
"""Default and maximum number of positions in one response."""


class PositionServicer(pb_grpc.PositionServiceServicer):
    """Saved positions over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ReadPosition(self, request: pb.ReadPositionRequest, context: Any) -> pb.ReadPositionResponse:
        key = _key(request.key)
        document = await self._broker.positions.read(str(key))
        return pb.ReadPositionResponse(position=None if document is None else _stored(str(key), document))

    async def WritePosition(self, request: pb.WritePositionRequest, context: Any) -> pb.WritePositionResponse:
        self._broker.check_serving()
        key = _key(request.key)
        self._broker.sink(key.sink)
        version = await self._broker.positions.write(str(key), request.document, request.expected_version)
        return pb.WritePositionResponse(version=version)

    async def DeletePosition(self, request: pb.DeletePositionRequest, context: Any) -> pb.DeletePositionResponse:
        self._broker.check_serving()
        await self._broker.positions.delete(str(_key(request.key)))
        return pb.DeletePositionResponse()

    async def ListPositions(self, request: pb.ListPositionsRequest, context: Any) -> pb.ListPositionsResponse:
        default, most = LIST
        size = min(request.page_size or default, most)
        after = _after(request.page_token)
        found = await self._broker.positions.list(request.prefix, after, size + 1)
        return pb.ListPositionsResponse(
            positions=[_stored(key, document) for key, document in found[:size]],
            next_page_token=found[size - 1][0] if len(found) > size else "",
        )


def _key(message: pb.PositionKey) -> PositionKey:
    key = PositionKey(message.namespace, message.consumer, message.sink, message.partition)
    key.check()
    return key


def _stored(key: str, document: bytes) -> pb.StoredPosition:
    found = parse_key(key)
    named = pb.PositionKey(
        namespace=found.namespace, consumer=found.consumer, sink=found.sink, partition=found.partition
    )
    return pb.StoredPosition(key=named, document=document, version=version_of(document))


def _after(token: str) -> str:
    """Return the last key of the previous page; raises ``INVALID_PAGE_TOKEN``."""
    if token:
        try:
            parse_key(token)
        except ValueError as error:
            problem = "page_token was not issued by this broker"
            raise BrokerError(Reason.INVALID_PAGE_TOKEN, problem, field="page_token") from error
    return token
