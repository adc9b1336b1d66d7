"""SchemaService: versions of the schemas of rows. Only converts and delegates."""

from __future__ import annotations

from typing import Any, Final

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.writes import SchemaRecord
from forebay.broker.rpc.convert import timestamp
from forebay.broker.rpc.sinks.page_tokens import page_token, place_of
from forebay.broker.runtime.broker import Broker
from forebay.errors.reasons import Reason
from forebay.v1 import schema_service_pb2 as pb
from forebay.v1 import schema_service_pb2_grpc as pb_grpc

LIST: Final = (100, 1_000)
TOKEN_DIGITS_MAX: Final = 9


class SchemaServicer(pb_grpc.SchemaServiceServicer):
    """Schemas over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def RegisterSchema(self, request: pb.RegisterSchemaRequest, context: Any) -> pb.RegisterSchemaResponse:
        self._broker.check_serving()
        buffer = self._broker.sink(request.sink, request.incarnation)
        previous = request.previous_version
        version = await buffer.schemas.register(request.arrow_schema, request.spark_schema, previous=previous)
        return pb.RegisterSchemaResponse(version=version, incarnation=buffer.record.incarnation)

    async def GetSchema(self, request: pb.GetSchemaRequest, context: Any) -> pb.GetSchemaResponse:
        buffer = self._broker.sink(request.sink, request.incarnation)
        found = await buffer.schemas.get(request.version)
        message = _schema(found)
        message.arrow_schema = found.arrow_schema
        message.spark_schema = found.spark_schema
        return pb.GetSchemaResponse(schema=message, incarnation=buffer.record.incarnation)

    async def ListSchemas(self, request: pb.ListSchemasRequest, context: Any) -> pb.ListSchemasResponse:
        buffer = self._broker.sink(request.sink)
        after = _after(place_of(buffer.record, request.page_token))
        default, most = LIST
        size = min(request.page_size or default, most)
        found = await buffer.schemas.list(after, size + 1)
        return pb.ListSchemasResponse(
            schemas=[_schema(one) for one in found[:size]],
            next_page_token=page_token(buffer.record, str(found[size - 1].version) if len(found) > size else ""),
        )


def _schema(record: SchemaRecord) -> pb.Schema:
    """Return a version for the wire, without its content; a lost version has no time of registration."""
    message = pb.Schema(version=record.version)
    if not record.lost:
        message.registered_at.CopyFrom(timestamp(record.registered_at_us))
    return message


def _after(place: str) -> int:
    if place and not (place.isdigit() and len(place) <= TOKEN_DIGITS_MAX):
        raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token")
    return int(place or "0")
