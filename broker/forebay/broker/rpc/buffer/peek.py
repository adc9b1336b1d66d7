"""Records for display, shortened, with a mark where content is omitted.

The bounds of the display also bound the work: the first kilobytes of a value of eight megabytes, the first characters
of a row's JSON, the first headers. Runs in a thread.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final

from forebay.broker.core.dead_letters.letters import NAMES, PlainRecord
from forebay.broker.core.errors import BrokerError, InvalidPartition
from forebay.broker.core.partition.pages import Body, Encoding, Entry, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.convert import gap, timestamp
from forebay.broker.rpc.pages.plain_records import records_at
from forebay.broker.rpc.pages.rows import SchemaOf, shown_rows, version_header
from forebay.broker.rpc.transport.answer_memory import becomes
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason
from forebay.page.format import HEADERS_MAX
from forebay.v1 import buffer_service_pb2 as pb

PEEK_RECORDS: Final = (10, 1_000)
"""Records of an answer: by default, and at most."""
PEEK_BYTES: Final = 8 << 20
"""Bytes of an answer above which no page is added."""
PEEK_RECORD_BYTES: Final = 8 << 10
"""Memory reserved per record of an answer; value and key are shortened, headers may take more."""
SHOWN_MAX: Final = 4_096
"""Characters of a value, a key, a header's name or its value."""
HEADERS_SHOWN_MAX: Final = HEADERS_MAX + len(NAMES)
"""Headers of a record; a dead letter has ten more than a publisher may give."""
HEADER_CHARS_MAX: Final = 65_536
"""Characters of all headers of a record together; those beyond are left out."""
UNREADABLE: Final = "unreadable"
"""Format of a row that cannot be decoded; its value is the reason."""
LOOKED_AT_BYTES: Final = 64 << 10
"""Size above which a value is not decoded as a whole, so that it is shown as text."""


async def peek(broker: Broker, request: pb.PeekRequest, memory: Share) -> pb.PeekResponse:
    """Return the requested records; ``memory`` holds the answer until it is closed."""
    buffer = broker.sink(request.sink, request.incarnation)
    if request.partition >= len(buffer.logs):
        raise InvalidPartition(request.partition, len(buffer.logs))
    if request.all_partitions and (request.partition or request.HasField("offset")):
        raise BrokerError(
            Reason.INVALID_RANGE,
            "all_partitions is set beside partition or offset: leave these out",
            field="all_partitions",
        )
    default, most = PEEK_RECORDS
    left = min(request.max_records or default, most)
    await memory.room(min(PEEK_BYTES, left * PEEK_RECORD_BYTES))
    response = pb.PeekResponse()
    partitions = [request.partition]
    if request.all_partitions:
        lanes = buffer.subscription("").lanes
        partitions = [
            partition
            for partition, log in enumerate(buffer.logs)
            if lanes[partition].cursor.watermark < log.tail.next_offset
        ]
    room = PEEK_BYTES
    for place, partition in enumerate(partitions):
        # What one partition does not use is left for the later ones.
        share = -(-left // (len(partitions) - place))
        offset = request.offset if request.HasField("offset") else None
        before = len(response.records)
        room = await _peek_partition(broker, buffer, partition, offset, share, room, response)
        left -= len(response.records) - before
        if left <= 0 or room <= 0:
            break
    becomes(memory, PEEK_BYTES - room)
    return response


async def _peek_partition(
    broker: Broker,
    buffer: Buffer,
    partition: int,
    offset: int | None,
    left: int,
    room: int,
    response: pb.PeekResponse,
) -> int:
    """Add up to ``left`` records and ``room`` bytes of a partition; return the room that is left."""
    replay = buffer.replay(partition)
    if offset is None:
        offset = buffer.subscription("").lanes[partition].cursor.watermark
    start = await replay.start_at(offset=offset, time_us=None)
    async with aclosing(replay.read(start, None, follow=False)) as steps:
        async for step in steps:
            if isinstance(step, Gap):
                response.gaps.append(gap(partition, step))
                continue
            for entry, body in step.pages:
                within = Range(max(start, entry.base), min(entry.end, max(start, entry.base) + left))
                found = await broker.pages.show(peeked, entry, body, within, buffer.schemas.stored, room=room)
                for record in found:
                    record.partition = partition
                    room -= record.ByteSize()
                response.records.extend(found)
                left -= len(found)
                if left == 0 or room <= 0 or len(found) < within.size:
                    return room
    return room


def peeked(entry: Entry, body: Body, within: Range, schema_of: SchemaOf, *, room: int) -> list[pb.PeekedRecord]:
    """Return the records of a page with offsets in ``within``, until their messages have ``room`` bytes.

    See ``rows`` for what it may raise.
    """
    found: list[pb.PeekedRecord] = []
    for message in _messages(entry, body, within, schema_of):
        found.append(message)
        room -= message.ByteSize()
        if room <= 0:
            break
    return found


def _messages(entry: Entry, body: Body, within: Range, schema_of: SchemaOf) -> Iterator[pb.PeekedRecord]:
    if entry.encoding == Encoding.ARROW:
        of_page: tuple[str, bytes] | None = None
        for row in shown_rows(entry, body, within, schema_of, chars_max=SHOWN_MAX):
            message = pb.PeekedRecord(
                offset=row.offset,
                value=row.text,
                format=UNREADABLE if row.unreadable else "json" if row.is_whole else "text",
                value_bytes=row.size,
                truncated=not row.is_whole,
            )
            if not row.unreadable:
                of_page = of_page or version_header(body)
                message.headers[of_page[0]] = of_page[1].decode()
            message.accepted_at.CopyFrom(timestamp(entry.part_of(row.offset).accepted_at_us))
            yield message
        return
    for offset, record, omitted in records_at(body.data, entry.base, [within], headers_max=HEADERS_SHOWN_MAX):
        message = shown(record, omitted)
        message.offset = offset
        message.accepted_at.CopyFrom(timestamp(entry.part_of(offset).accepted_at_us))
        yield message


def shown(record: PlainRecord, omitted: int = 0) -> pb.PeekedRecord:
    """Return a record for display; ``omitted`` of its headers are not in it."""
    value, form, cut = _value(record.value)
    message = pb.PeekedRecord(value=value, format=form, value_bytes=len(record.value), truncated=cut)
    if record.key is not None:
        message.key, cut = _text(record.key)
        message.truncated |= cut
    left = HEADER_CHARS_MAX
    for place, (name, content) in enumerate(record.headers):
        if left <= 0:
            omitted += len(record.headers) - place
            break
        text, cut = _text(content)
        message.headers[name[:SHOWN_MAX]] = text
        message.truncated |= cut or len(name) > SHOWN_MAX
        left -= len(text) + len(name[:SHOWN_MAX])
    message.headers_omitted = omitted
    message.truncated |= omitted > 0
    if record.event_time_us is not None:
        message.event_time.CopyFrom(timestamp(record.event_time_us))
    return message


def _value(value: bytes) -> tuple[str, str, bool]:
    """Return the text of a value, its form, and True if some of it is omitted."""
    if len(value) > LOOKED_AT_BYTES:
        begun = _begun(value)
        if begun is None:
            return base64.b64encode(value[:SHOWN_MAX]).decode()[:SHOWN_MAX], "base64", True
        return begun[:SHOWN_MAX], "text", True
    try:
        text = value.decode()
    except UnicodeDecodeError:
        whole = base64.b64encode(value).decode()
        return whole[:SHOWN_MAX], "base64", len(whole) > SHOWN_MAX
    return text[:SHOWN_MAX], "json" if _is_json(text) else "text", len(text) > SHOWN_MAX


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text(content: bytes) -> tuple[str, bool]:
    """Return bytes as text or base64, and True if some of them are omitted."""
    text = _begun(content)
    if text is None:
        text = base64.b64encode(content[:SHOWN_MAX]).decode()
    return text[:SHOWN_MAX], len(text) > SHOWN_MAX or len(content) > 4 * SHOWN_MAX


def _begun(content: bytes) -> str | None:
    """Return the first characters, some more than are shown if there are more; None if it is not text."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        return decoder.decode(content[: 4 * (SHOWN_MAX + 1)], final=len(content) <= 4 * (SHOWN_MAX + 1))
    except UnicodeDecodeError:
        return None
