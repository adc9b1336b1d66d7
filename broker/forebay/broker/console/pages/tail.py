"""Live tail: new records of a sink as they are stored, with a filter and a bounded rate."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.pages.page import (
    UINT32_MAX,
    Page,
    PageSource,
    number,
    optional_number,
    query,
    refused,
)
from forebay.broker.console.pages.records import holds, searched
from forebay.broker.console.values import VIEWS
from forebay.broker.core.access.principal import Right
from forebay.broker.core.errors import BrokerError, InvalidPartition, OffsetTrimmed
from forebay.broker.rpc.buffer.peek import peek
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.v1 import buffer_service_pb2 as pb

POLL_S: Final = 1.0
"""Time between two looks."""

RECORDS_PER_POLL: Final = 200
"""Records of a partition read per poll unless the page names fewer; older ones are skipped."""

KEPT: Final = 100
"""Records on the page: the newest."""

PARTITIONS_MAX: Final = 32
"""Partitions of a tail without a chosen one; of a larger sink it has the first ones."""


class LiveTail:
    """Records that came since a page was opened."""

    def __init__(
        self,
        source: PageSource,
        name: str,
        partition: int | None,
        wanted: str,
        after: Sequence[int] = (),
        *,
        rate: int = RECORDS_PER_POLL,
    ) -> None:
        """Begin at offsets, one for each partition that is followed, or after the newest records.

        ``rate`` bounds the records of a partition that one poll reads.

        Raises ``InvalidPartition``.
        """
        self._source = source
        self._name = name
        self._wanted = wanted
        self._rate = rate
        buffer = source.broker.sinks[name]
        if partition is not None and partition >= len(buffer.logs):
            raise InvalidPartition(partition, len(buffer.logs))
        chosen = range(min(len(buffer.logs), PARTITIONS_MAX)) if partition is None else [partition]
        self._incarnation = buffer.record.incarnation
        self._next = {number: buffer.logs[number].tail.next_offset for number in chosen}
        if len(after) == len(self._next):
            self._next = {
                number: min(end, begin) for (number, end), begin in zip(self._next.items(), after, strict=True)
            }
        self.records: deque[pb.PeekedRecord] = deque(maxlen=KEPT)
        self.seen = 0
        """Records that were stored since."""

        self.skipped = 0
        """Records that were not read: too many came, or they were too large."""

        self.removed = 0
        """Records that were settled and removed before they were read."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offsets at which the next poll begins."""
        return tuple(self._next.values())

    @property
    def partitions(self) -> int:
        """Number of partitions that are followed."""
        return len(self._next)

    async def poll(self) -> bool:
        """Read what is new, and return whether anything is. Raises ``BrokerError``."""
        buffer = self._source.broker.sink(self._name, self._incarnation)
        before = self.seen
        for partition in self._next:
            await self._poll_partition(buffer, partition)
        return self.seen > before

    async def _poll_partition(self, buffer: Buffer, partition: int) -> None:
        log, start = buffer.logs[partition], self._next[partition]
        end = log.tail.next_offset
        if end <= start:
            return
        wanted = max(start, end - self._rate)
        self.seen += end - start
        self.skipped += wanted - start
        self._next[partition] = end
        with self._source.broker.stream_memory.share() as memory:
            while (first := min(end, max(wanted, log.reachable))) < end:
                asked = pb.PeekRequest(sink=self._name, partition=partition, offset=first, max_records=end - first)
                try:
                    found = await peek(self._source.broker, asked, memory)
                except OffsetTrimmed:
                    if log.reachable <= first:
                        raise
                    continue  # a consumer settled more of them
                self.skipped += end - min(end, _end_of(found, first))
                read = (record for record in found.records if record.offset < end)  # gaps make room for later ones
                self.records.extend(record for record in read if not self._wanted or holds(record, self._wanted))
                break
            self.removed += first - wanted


def _end_of(found: pb.PeekResponse, first: int) -> int:
    """Return the offset after the last record or gap of an answer, which ends before large records."""
    lasts = [*(gap.last_offset for gap in found.gaps), *(record.offset for record in found.records[-1:])]
    return max((last + 1 for last in lasts), default=first)


async def tail(source: PageSource, request: Request) -> Page:
    """Return the records since the offsets in the query; without offsets none, and the offsets of now."""
    following = _tail(source, request)
    begin = following.offsets
    try:
        await following.poll()
    except BrokerError as error:
        raise refused(error) from error
    return _page(source, request, following, begin)


async def follow_tail(source: PageSource, request: Request) -> AsyncGenerator[Page | None, None]:
    """Yield the page after each poll that found something, None after the others."""
    following = _tail(source, request)
    begin = following.offsets
    while not source.ended.is_set():
        try:
            async with asyncio.timeout(POLL_S):
                await source.ended.wait()
        except TimeoutError:
            request.state.principal = source.admit(request)
            source.named(request, Right.REPLAY)
            try:
                found = await following.poll()
            except BrokerError as error:
                raise refused(error) from error
            yield _page(source, request, following, begin) if found else None


def _tail(source: PageSource, request: Request) -> LiveTail:
    name = source.named(request, Right.REPLAY)
    try:
        return LiveTail(
            *(source, name, _partition(request), searched(request), _after(request)),
            rate=_rate(request),
        )
    except BrokerError as error:
        raise refused(error) from error


def _partition(request: Request) -> int | None:
    return optional_number(request, "partition", most=UINT32_MAX)


def _rate(request: Request) -> int:
    """Return the records per second of a partition that a page shows at most. Raises ``HTTPException``."""
    found = number(request, "rate", RECORDS_PER_POLL) if request.query_params.get("rate") else RECORDS_PER_POLL
    if not 1 <= found <= RECORDS_PER_POLL:
        raise HTTPException(400, f"rate = {found}: must be 1 to {RECORDS_PER_POLL}.")
    return found


def _after(request: Request) -> list[int]:
    """Return the offsets of a query. Raises ``HTTPException``."""
    parts = [part for part in request.query_params.get("after", "").split("_", PARTITIONS_MAX) if part]
    if not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        raise HTTPException(400, "after must be offsets, one for each partition, with _ between them.")
    return [int(part) for part in parts]


def _page(source: PageSource, request: Request, following: LiveTail, begin: Sequence[int]) -> Page:
    name, partition = request.path_params["sink"], _partition(request)
    data: dict[str, Any] = {
        "seen": following.seen,
        "skipped": following.skipped,
        "removed": following.removed,
        "after": following.offsets,
        "partitions": following.partitions,
        "records": list(reversed(following.records)),
    }
    shown = {
        **data,
        "name": name,
        "partition": partition,
        "contains": searched(request),
        "rate": _rate(request),
        "rate_max": RECORDS_PER_POLL,
        "view": VIEWS[0],
    }
    command = f"forebay tail {name} --follow" + (f" --partition {partition}" if partition is not None else "")
    path = f"/sinks/{name}/tail"
    rate = _rate(request)
    asked = query(
        partition=partition,
        contains=searched(request),
        rate=rate if rate != RECORDS_PER_POLL else None,
        after="_".join(map(str, begin)),
    )
    return Page("tail.html", f"Tail of {name}", data, command, path, asked, shown=shown)
