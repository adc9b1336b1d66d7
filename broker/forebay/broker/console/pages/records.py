"""Records of one partition, and the explanation of one record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.pages.page import (
    UINT32_MAX,
    Page,
    PageSource,
    as_json,
    number,
    optional_number,
    query,
    refused,
)
from forebay.broker.console.values import VIEWS
from forebay.broker.core.access.principal import Right
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.buffer.peek import peek
from forebay.broker.rpc.sinks.service import SinkServicer
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import sink_service_pb2

RECORDS: Final = 50
"""Records on a page."""

EXAMINED: Final = 1_000
"""Records that one search examines."""

TEXT_MAX: Final = 200
"""Characters of a searched text."""


async def records(source: PageSource, request: Request) -> Page:
    """Return records of one partition, from an offset or a time on; the lowest unsettled one by default."""
    name = source.named(request, Right.REPLAY)
    partition = number(request, "partition", 0, most=UINT32_MAX)
    wanted, key = searched(request), searched(request, "key")
    is_filtered = bool(wanted or key)
    view = request.query_params.get("as", VIEWS[0])
    if view not in VIEWS:
        raise HTTPException(400, f"as must be one of {', '.join(VIEWS)}.")
    asked = pb.PeekRequest(sink=name, partition=partition, max_records=EXAMINED if is_filtered else RECORDS)
    buffer = source.broker.sinks[name]
    with source.broker.stream_memory.share() as memory:
        try:
            offset = await _start(source, request, name, partition)
            if offset is not None:
                asked.offset = offset
            found = await peek(source.broker, asked, memory)
        except BrokerError as error:
            raise refused(error) from error
        examined = len(found.records)
        first = found.records[0].offset if found.records else asked.offset
        if not (found.records or asked.HasField("offset")):
            first = buffer.subscription("").lanes[partition].cursor.watermark
        after = found.records[-1].offset + 1 if found.records else first
        if is_filtered:
            kept = [one for one in found.records if holds(one, wanted) and (not key or one.key == key)][:RECORDS]
            if len(kept) == RECORDS:
                after = kept[-1].offset + 1
            del found.records[:]
            found.records.extend(kept)
        data = as_json(found)
    earliest, end = buffer.logs[partition].earliest, buffer.logs[partition].tail.next_offset
    figures = {
        "partition": partition,
        "partitions": len(buffer.logs),
        "first": first,
        "examined": examined,
        "earliest": earliest,
        "end": end,
    }
    same: dict[str, Any] = {
        "partition": partition,
        "key": key,
        "contains": wanted,
        "as": view if view != VIEWS[0] else "",
    }
    turns = {
        "previous": query(**same, offset=max(earliest, first - RECORDS)) if first > earliest else "",
        "next": query(**same, offset=after) if after < end else "",
    }
    shown = {
        **figures,
        **turns,
        "name": name,
        "records": found.records,
        "gaps": found.gaps,
        "key": key,
        "contains": wanted,
        "is_filtered": is_filtered,
        "view": view,
        "views": VIEWS,
    }
    return Page(
        "records.html",
        f"Records of {name}",
        {**data, **figures, **turns},
        f"forebay peek {name} --partition {partition} --offset {first} --count {max(1, examined)}",
        f"/sinks/{name}/records",
        query(**same, offset=first),
        shown=shown,
    )


async def explain(source: PageSource, request: Request) -> Page:
    """Return what happened to one record."""
    name = source.named(request)
    partition, offset = number(request, "partition", 0, most=UINT32_MAX), number(request, "offset", 0)
    subscription = request.query_params.get("subscription", "")
    wanted = sink_service_pb2.ExplainRecordRequest(
        sink=name, partition=partition, offset=offset, subscription=subscription
    )
    try:
        found = await SinkServicer(source.broker).ExplainRecord(wanted, None)
    except BrokerError as error:
        raise refused(error) from error
    subscriptions = sorted(source.broker.sinks[name].subscriptions)
    command = f"forebay explain {name} {offset} --partition {partition}"
    if subscription:
        command += f" --subscription {subscription}"
    return Page(
        "explain.html",
        f"Record {partition}:{offset} of {name}",
        {**as_json(found), "subscriptions": subscriptions},
        command,
        f"/sinks/{name}/explain",
        query(partition=partition, offset=offset, subscription=subscription),
        shown={
            "name": name,
            "partition": partition,
            "offset": offset,
            "found": found,
            "subscriptions": subscriptions,
        },
    )


def searched(request: Request, name: str = "contains") -> str:
    """Return the text that records must contain, or their key; empty for all. Raises ``HTTPException``."""
    text = request.query_params.get(name, "")
    if len(text) > TEXT_MAX:
        raise HTTPException(400, f"{name} has {len(text)} characters; at most {TEXT_MAX} are possible.")
    return text


def holds(record: pb.PeekedRecord, text: str) -> bool:
    """Return True if key, value or a header of a record contains a text."""
    return (
        text in record.key
        or text in record.value
        or any(text in name or text in value for name, value in record.headers.items())
    )


async def _start(source: PageSource, request: Request, name: str, partition: int) -> int | None:
    """Return the first requested offset. Raises ``BrokerError`` and ``HTTPException``."""
    since = request.query_params.get("since", "")
    buffer = source.broker.sinks[name]
    if not since or partition >= len(buffer.logs):
        return optional_number(request, "offset")
    try:
        at = datetime.fromisoformat(since)
    except ValueError as error:
        raise HTTPException(400, f"since must be a time such as 2026-11-23T17:00 (UTC), not {since[:40]!r}.") from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return await buffer.replay(partition).start_at(offset=None, time_us=round(at.timestamp() * 1e6))
