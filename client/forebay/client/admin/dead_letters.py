"""Administration of dead letters: list, redrive and purge. Durable before each call returns.

The broker answers in bounded steps; the methods here run all of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, Unpack

from forebay.client.admin.sinks import ONCE, stats_message
from forebay.client.errors import InvalidArgument, SinkNotFound
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.client.values import convert
from forebay.client.values.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterReason
from forebay.client.values.records import Record
from forebay.errors.reasons import Reason
from forebay.v1 import dead_letter_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

OFFSET_MAX: Final = (1 << 63) - 1
SUFFIX: Final = ".dlq"
REASONS: Final = {
    DeadLetterReason.UNSPECIFIED: pb.DEAD_LETTER_REASON_UNSPECIFIED,
    DeadLetterReason.REJECTED: pb.DEAD_LETTER_REASON_REJECTED,
    DeadLetterReason.MAX_ATTEMPTS: pb.DEAD_LETTER_REASON_MAX_ATTEMPTS,
}


class DeadLetterCalls:
    """Dead letters of a client's sinks.

    ``sink`` is the sink of origin or its dead-letter sink. All methods raise ``SinkNotFound`` if neither exists, and
    ``INVALID_FILTER``.
    """

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, DeadLetterServiceStub)
        self._sinks = Service(channels, SinkServiceStub)

    @stream
    async def list(self, sink: str, **wanted: Unpack[DeadLetterFilter]) -> AsyncGenerator[DeadLetter, None]:
        """Yield the unsettled dead letters, by partition and offset."""
        request = pb.ListDeadLettersRequest(sink=sink, filter=filter_message(wanted), page_size=1_000)
        async for page in self._service.pages("ListDeadLetters", sink, request):
            for one in page.dead_letters:
                yield dead_letter(one)

    @operation
    async def redrive(
        self, sink: str, *, on_progress: Callable[[int], None] | None = None, **wanted: Unpack[DeadLetterFilter]
    ) -> int:
        """Append dead letters to their sink again, for their subscription; return their number.

        Each is redriven exactly once, also after failures; a record that becomes a dead letter again stays.
        Raises ``SinkFull`` if there is no room: redriven records stay redriven, and the same call continues with the
        rest. The number excludes records redriven by an attempt whose answer was lost. ``on_progress`` is called with
        the number of records of each step.
        """
        pages = self._bounded("RedriveDeadLetters", sink, pb.RedriveDeadLettersRequest(filter=filter_message(wanted)))
        redriven = 0
        async for page in pages:
            redriven += page.redriven
            if on_progress is not None:
                on_progress(page.redriven)
        return redriven

    @operation
    async def purge(
        self,
        sink: str,
        *,
        end_offsets: Mapping[int, int] | None = None,
        incarnation: str = "",
        **wanted: Unpack[DeadLetterFilter],
    ) -> int:
        """Drop the dead letters that exist when this is called, permanently; return their number.

        Later dead letters stay, also when the call is retried after a broken connection. The number then excludes
        records dropped by the attempt whose answer was lost. ``end_offsets`` is an earlier end by partition of the
        dead-letter sink, such as ``next_offset`` of its stats: dead letters from there on stay, and so do partitions
        that it does not name. It belongs to ``incarnation``, that of the dead-letter sink; another one raises
        ``SinkReplaced``.
        """
        request = pb.PurgeDeadLettersRequest(filter=filter_message(wanted), incarnation=incarnation)
        pages = self._bounded("PurgeDeadLetters", sink, request, end_offsets)
        return sum([int(page.purged) async for page in pages])

    async def _bounded(
        self, rpc: str, sink: str, request: Any, end_offsets: Mapping[int, int] | None = None
    ) -> AsyncGenerator[Any, None]:
        """Yield the responses of a call about the dead letters that exist now, or below ``end_offsets``."""
        origin = sink.removesuffix(SUFFIX)
        request.sink = sink
        if end_offsets is None or not request.incarnation:
            try:
                found = await stats_message(self._sinks, origin + SUFFIX, policy=ONCE)
            except SinkNotFound:
                if sink != origin or request.incarnation:
                    raise
                await self._service.unary.incarnation(origin)  # raises if the origin does not exist either
                return
            request.incarnation = request.incarnation or found.incarnation
            if end_offsets is None:
                request.end_offsets.update({one.partition: one.next_offset for one in found.partitions})
        if end_offsets is not None:
            if not end_offsets:
                return  # on the wire an empty map is no bound
            request.end_offsets.update(end_offsets)
        async for page in self._service.pages(rpc, sink, request):
            yield page


class DeadLetters(DeadLetterCalls, Blocking):
    """Dead letters of a client's sinks. Thread-safe."""


def filter_message(wanted: DeadLetterFilter) -> pb.DeadLetterFilter:
    """Return the wire form of a filter; raises ``INVALID_FILTER``."""
    unknown = sorted(set(wanted) - set(DeadLetterFilter.__annotations__))
    if unknown:
        allowed = ", ".join(DeadLetterFilter.__annotations__)
        raise InvalidArgument(f"{unknown[0]} is not a filter: must be one of {allowed}", reason=Reason.INVALID_FILTER)
    message = pb.DeadLetterFilter(
        error_contains=wanted.get("error_contains", ""), subscription=wanted.get("subscription", "")
    )
    try:
        if "error" in wanted:
            message.error = wanted["error"]
        message.reason = REASONS[DeadLetterReason(str(wanted.get("reason", DeadLetterReason.UNSPECIFIED)).upper())]
        if "partition" in wanted:
            message.partition = wanted["partition"]
        if "first_offset" in wanted or "last_offset" in wanted:
            first, last = wanted.get("first_offset", 0), wanted.get("last_offset", OFFSET_MAX)
            message.origin_offsets.CopyFrom(record_pb2.OffsetRange(first_offset=first, last_offset=last))
    except (ValueError, TypeError) as failure:
        raise InvalidArgument(f"a filter has an invalid value: {failure}", reason=Reason.INVALID_FILTER) from failure
    if "from_time" in wanted:
        message.from_time.CopyFrom(convert.stamp(wanted["from_time"]))
    if "until_time" in wanted:
        message.until_time.CopyFrom(convert.stamp(wanted["until_time"]))
    return message


def dead_letter(message: pb.DeadLetter) -> DeadLetter:
    """Return the dead letter of a message."""
    found = message.record
    record = Record(
        value=found.value,
        key=found.key if found.HasField("key") else None,
        headers=tuple((header.key, header.value) for header in found.headers),
        event_time=convert.moment(found.event_time) if found.HasField("event_time") else None,
    )
    return convert.value(DeadLetter, message, record=record)
