"""DeadLetterService: list, redrive and purge dead letters. Only converts and delegates."""

from __future__ import annotations

from typing import Any, Final, cast

from forebay.broker.core.dead_letters.letters import DeadLetter, Filter, RejectionReason
from forebay.broker.core.errors import BrokerError, InvalidValue
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.convert import timestamp, timestamp_us
from forebay.broker.rpc.pages.records import record_message
from forebay.broker.rpc.sinks.page_tokens import page_token, place_of
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations, Position
from forebay.errors.reasons import Reason
from forebay.v1 import dead_letter_service_pb2 as pb
from forebay.v1 import dead_letter_service_pb2_grpc as pb_grpc

LIST: Final = (100, 1_000)
REDRIVE: Final = (1_000, 10_000)
PURGE: Final = (10_000, 100_000)
ERROR_MAX: Final = 1_024


class DeadLetterServicer(pb_grpc.DeadLetterServiceServicer):
    """Dead letters over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ListDeadLetters(self, request: pb.ListDeadLettersRequest, context: Any) -> pb.ListDeadLettersResponse:
        dead_letters = DeadLetterOperations(self._broker, request.sink)
        size = _bounded(request.page_size, *LIST)
        found, after = await dead_letters.list(
            filter_of(request.filter), size, _position(dead_letters, request.page_token)
        )
        letters = [dead_letter(partition, letter) for partition, letter in found]
        return pb.ListDeadLettersResponse(dead_letters=letters, next_page_token=_token(dead_letters, after))

    async def RedriveDeadLetters(
        self, request: pb.RedriveDeadLettersRequest, context: Any
    ) -> pb.RedriveDeadLettersResponse:
        self._broker.check_serving()
        dead_letters = DeadLetterOperations(self._broker, request.sink, request.incarnation, ends=request.end_offsets)
        size = _bounded(request.max_records, *REDRIVE)
        done = await dead_letters.redrive(filter_of(request.filter), size, _position(dead_letters, request.page_token))
        return pb.RedriveDeadLettersResponse(redriven=done.records, next_page_token=_token(dead_letters, done.next))

    async def PurgeDeadLetters(self, request: pb.PurgeDeadLettersRequest, context: Any) -> pb.PurgeDeadLettersResponse:
        self._broker.check_serving()
        dead_letters = DeadLetterOperations(self._broker, request.sink, request.incarnation, ends=request.end_offsets)
        size = _bounded(request.max_records, *PURGE)
        done = await dead_letters.purge(filter_of(request.filter), size, _position(dead_letters, request.page_token))
        return pb.PurgeDeadLettersResponse(purged=done.records, next_page_token=_token(dead_letters, done.next))


def _bounded(requested: int, default: int, most: int) -> int:
    return min(requested or default, most)


def _position(dead_letters: DeadLetterOperations, token: str) -> Position | None:
    return Position.parse(place_of(dead_letters.record, token)) if token and dead_letters.record is not None else None


def _token(dead_letters: DeadLetterOperations, position: Position | None) -> str:
    return (
        page_token(dead_letters.record, position.text())
        if position is not None and dead_letters.record is not None
        else ""
    )


def filter_of(message: pb.DeadLetterFilter) -> Filter:
    """Return a filter from the wire, checked."""
    if message.reason and int(message.reason) not in {int(reason) for reason in RejectionReason}:
        raise BrokerError(Reason.INVALID_FILTER, f"reason {message.reason} is not known", field="filter.reason")
    for field, text in (("error_contains", message.error_contains), ("error", message.error)):
        if len(text) > ERROR_MAX:
            raise InvalidValue(
                Reason.INVALID_FILTER, f"filter.{field}", f"{len(text)} characters", f"up to {ERROR_MAX}"
            )
    offsets = None
    if message.HasField("origin_offsets"):
        wanted = message.origin_offsets
        if wanted.last_offset < wanted.first_offset:
            raise BrokerError(
                Reason.INVALID_FILTER,
                f"the range {wanted.first_offset} to {wanted.last_offset} has its end before its start",
                field="filter.origin_offsets",
            )
        offsets = Range(wanted.first_offset, wanted.last_offset + 1)
    return Filter(
        reason=RejectionReason(message.reason) if message.reason else None,
        error_contains=message.error_contains,
        error=message.error if message.HasField("error") else None,
        subscription=message.subscription,
        partition=message.partition if message.HasField("partition") else None,
        offsets=offsets,
        from_us=timestamp_us(message.from_time) if message.HasField("from_time") else None,
        until_us=timestamp_us(message.until_time) if message.HasField("until_time") else None,
    )


def dead_letter(partition: int, letter: DeadLetter) -> pb.DeadLetter:
    """Return a dead letter for the wire."""
    record, origin = record_message(letter.record), letter.origin
    message = pb.DeadLetter(partition=partition, offset=letter.offset, record=record, uncut=letter.uncut)
    if origin is not None:
        message.reason = cast("pb.DeadLetterReason", int(origin.reason))
        message.error = origin.error
        message.attempts = origin.attempts
        message.subscription = origin.subscription
        message.origin_incarnation = origin.incarnation
        message.origin_partition = origin.partition
        message.origin_offset = origin.offset
        message.time.CopyFrom(timestamp(origin.at_us))
        message.traceparent = origin.traceparent
    return message
