"""Replay of one partition, without any change of state.

The replay survives a broken stream: it re-attaches after the last received page, with the same end. Missing records
are reported, never skipped: a gap raises ``GapError``, or is returned with ``on_gap="yield"``.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Final, Literal, TypedDict, Unpack

import grpc

from forebay.client.admin.schemas import SchemaCache
from forebay.client.errors import (
    BrokerUnavailable,
    Closed,
    ForebayError,
    GapError,
    InvalidArgument,
    PageCorrupt,
)
from forebay.client.replay.columns import checked_body
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.settings import RetryPolicy
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.forks import PROCESS
from forebay.client.transport.io import Responses
from forebay.client.transport.operations import blocked
from forebay.client.transport.retry import RetryState
from forebay.client.values import convert
from forebay.client.values.records import Gap, StoredPage
from forebay.client.values.schemas import Schema
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

OnGap = Literal["raise", "yield"]

HEALTHY_S: Final = 10.0
"""Time after which an open stream has reached its broker, whether or not it brought a page."""
AHEAD_S: Final = 1.0
"""Maximum age of a stream that was opened ahead of its first read."""


class ReplayOptions(TypedDict, total=False):
    """Options of a replay."""

    start: int | None
    """First offset; by default the earliest stored one."""

    start_time: datetime | None
    """Start time, instead of ``start``: the first record accepted then or later.

    A time without a zone is local.
    """

    end: int | None
    """Offset after the last one; by default the end of the partition when reading begins."""

    follow: bool
    """Wait for new records at the end."""

    on_gap: OnGap
    """Reaction to a gap: ``"raise"``, the default, or ``"yield"``."""

    incarnation: str
    """Incarnation of the sink that the offsets belong to; empty accepts any.

    Another one raises ``SinkReplaced``.
    """

    reader_id: str
    """Name of the reader in the statistics of the sink: 1 to 64 of [A-Za-z0-9._-]; by default none."""


class PartitionPages:
    """Pages of one partition, for the thread client and for the asyncio client.

    Not thread-safe, except ``close``.
    """

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        partition: int,
        start: int | None = None,
        start_time: datetime | None = None,
        end: int | None = None,
        follow: bool = False,
        on_gap: OnGap = "raise",
        incarnation: str = "",
        reader_id: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if start is not None and start_time is not None:
            raise InvalidArgument("start and start_time are set: set only one of them", reason=Reason.INVALID_RANGE)
        self._channels = channels
        self._sink = sink
        self._schemas = SchemaCache(channels, sink)
        self._telemetry = Telemetry(sink, server=channels.server_of(sink))
        self._endpoint = channels.endpoint_of(sink)
        """Broker of the present stream."""
        self._partition = partition
        self._next = start
        self._start_time = start_time
        self._end = end
        self._follow = follow
        self._reader_id = reader_id
        self._on_gap = on_gap
        self._clock = clock
        self._sleep = channels.io.sleep
        self._forks = PROCESS.forks
        self.incarnation = incarnation
        """Incarnation of the sink, once it is known."""
        self._is_opened = False
        """The opening answer of the broker has arrived."""
        self._call: Responses | None = None
        self._begun_at: float | None = None
        """Time at which the stream was opened; ``None`` once it is read."""
        self._closing = threading.Event()
        timeout_s = channels.settings.reattach_timeout_s
        reconnect = channels.settings.reconnect
        self._retry = RetryState(
            RetryPolicy(
                tries_max=reconnect.tries_max,
                delay_min_s=reconnect.delay_min_s,
                delay_max_s=reconnect.delay_max_s,
                delay_factor=reconnect.delay_factor,
                budget_s=timeout_s,
            ),
            random.random,
        )
        self._opened_at: float | None = None
        """Time at which the broker opened the present stream."""
        self._ready: deque[StoredPage | Gap] = deque()
        """Received and not yet returned."""
        self._messages = self._read()

    async def step(self) -> StoredPage | Gap | None:
        """Return the next page or gap; None at the end, or when the replay is closed.

        A cancelled call loses nothing: the next one re-attaches after the last received page.
        """
        if self._forks != PROCESS.forks:
            raise Closed(
                "this replay was opened before fork: open a new one in this process", reason=Reason.USED_AFTER_FORK
            )
        while not self._closing.is_set():
            if self._ready:
                return self._ready.popleft()
            try:
                await anext(self._messages)
            except StopAsyncIteration:
                break
            except Exception:
                raise
            except BaseException:  # cancelled, or interrupted
                self._messages = self._read()
                raise
        return None

    @property
    def left(self) -> int:
        """Number of offsets up to the end; 0 if unknown: before the first page, or with ``follow``."""
        following = self._ready[0].first_offset if self._ready else self._next
        return 0 if following is None or self._end is None else max(0, self._end - following)

    def begin(self) -> None:
        """Open the stream ahead of the first read, to hide its latency. Idempotent.

        Failures are raised by the first read.
        """
        if self._call is None and not self._closing.is_set() and self._channels.is_placed(self._sink):
            self._endpoint = self._channels.endpoint_of(self._sink)
            with suppress(ForebayError):
                self._connect()
                self._begun_at = self._clock()

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._closing.set()
        if self._call is not None and self._forks == PROCESS.forks:
            self._call.cancel()

    async def _read(self) -> AsyncGenerator[None, None]:
        """Yield after each page or gap."""
        hops = 0
        while not self._closing.is_set():
            try:
                async with aclosing(self._one_stream()) as messages:
                    async for message in messages:
                        yield message
                return
            except ForebayError as error:
                if self._closing.is_set():
                    return
                if self._opened_at is not None:
                    hops = 0
                if self._channels.misplaced(self._sink, self._endpoint, error, hops):
                    hops += 1
                    self._opened_at = None
                    continue
                if not error.retryable and not isinstance(error, PageCorrupt):
                    raise
                now = self._clock()
                if self._opened_at is not None and now - self._opened_at >= HEALTHY_S:
                    self._retry.succeeded()  # it only had nothing to read
                self._opened_at = None
                delay_s = self._retry.failed(now, error.retry_after_s)
                if delay_s is None:
                    raise
            await self._sleep(delay_s)

    def _request(self) -> pb.ReplayRequest:
        request = pb.ReplayRequest(
            sink=self._sink,
            partition=self._partition,
            end_offset=self._end,
            follow=self._follow,
            incarnation=self.incarnation,
            reader_id=self._reader_id,
        )
        if self._next is not None:
            request.start_offset = self._next
        elif self._start_time is not None:
            request.start_time.CopyFrom(convert.stamp(self._start_time))
        return request

    async def _one_stream(self) -> AsyncGenerator[None, None]:
        if self._next is not None and self._end is not None and self._next >= self._end and self._is_opened:
            return
        if self._begun_at is None:
            self._endpoint = await self._channels.locate(self._sink)
        call = self._stream()
        try:
            async for response in call:
                kind = response.WhichOneof("response")
                if kind == "pages":
                    # One by one: a page that is used while it is in the processor's cache costs less.
                    schema_of = await self._schemas.source(self.incarnation, response.pages.pages)
                    for message in response.pages.pages:
                        page = self._cut(message, checked_body(message), schema_of)
                        if page is not None:
                            self._next = page.last_offset + 1
                            self._retry.succeeded()
                            self._telemetry.read("replay", len(page))
                            self._ready.append(page)
                            yield
                elif kind == "gap":
                    gap = convert.value(Gap, response.gap)
                    self._next = gap.last_offset + 1
                    if self._on_gap == "raise":
                        raise _gap_error(gap)
                    self._retry.succeeded()
                    self._ready.append(gap)
                    yield
                elif kind == "opened":
                    self._opened(response.opened)
        except grpc.RpcError as failure:
            raise await self._channels.ended(failure, self._endpoint) from failure
        finally:
            call.cancel()

    def _connect(self) -> Responses:
        try:
            method = self._channels.stub_at(BufferServiceStub, self._endpoint).Replay
            call = self._channels.io.read(method, self._request(), opening_s=self._channels.opening_s)
        except ValueError as failure:  # grpc: the channel was closed
            raise BrokerUnavailable(str(failure)) from failure
        self._call = call
        if self._closing.is_set():  # another thread closed the replay, and may have seen no call to cancel
            call.cancel()
        return call

    def _stream(self) -> Responses:
        """Return the stream that was opened ahead if it is recent; an older one may have trimmed contents."""
        begun_at, self._begun_at = self._begun_at, None
        if begun_at is None or self._call is None:
            return self._connect()
        if self._clock() - begun_at <= AHEAD_S:
            return self._call
        self._call.cancel()
        return self._connect()

    def _opened(self, message: pb.ReplayOpened) -> None:
        self._is_opened, self.incarnation = True, message.incarnation
        self._opened_at = self._clock()
        if self._next is None:
            self._next = message.start_offset
        if self._end is None and message.HasField("end_offset"):
            self._end = message.end_offset

    def _cut(
        self, message: record_pb2.StoredPage, body: bytes, schema_of: Callable[[int], Schema]
    ) -> StoredPage | None:
        """Return the requested part of a page, ``None`` if it has none."""
        first = message.base_offset if self._next is None else max(message.base_offset, self._next)
        last = message.base_offset + message.record_count - 1
        if self._end is not None:
            last = min(last, self._end - 1)
        if first > last:
            return None
        return convert.stored_page(message, body, self._partition, first, last, schema_of)


class PageReplay(ClosableIterator[StoredPage | Gap]):
    """Iterator of the requested parts of pages, and of :class:`Gap` with ``on_gap="yield"``.

    Not thread-safe, except ``close``. Iterating raises ``OffsetTrimmed``, ``OFFSET_AHEAD``,
    ``SinkNotFound``, ``INVALID_PARTITION``, ``GapError``, ``SinkReplaced``, and ``BrokerUnavailable`` if the
    broker was unavailable for longer than ``reattach_timeout_s``.
    """

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        partition: int,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[ReplayOptions],
    ) -> None:
        self._pages = PartitionPages(channels, sink, partition=partition, clock=clock, **options)

    def __next__(self) -> StoredPage | Gap:
        """Return the next page or gap; stops at the end, or when the replay is closed."""
        step = blocked(self._pages.step())
        if step is None:
            raise StopIteration
        return step

    @property
    def incarnation(self) -> str:
        """Incarnation of the sink, once it is known."""
        return self._pages.incarnation

    @property
    def left(self) -> int:
        """Number of offsets up to the end; 0 if unknown: before the first page, or with ``follow``."""
        return self._pages.left

    def begin(self) -> None:
        """Open the stream ahead of the first read, to hide its latency. Idempotent.

        Failures are raised by the first read.
        """
        self._pages.begin()

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._pages.close()


def _gap_error(gap: Gap) -> GapError:
    facts = {
        "partition": str(gap.partition),
        "first_offset": str(gap.first_offset),
        "last_offset": str(gap.last_offset),
        "drop_reason": gap.reason.value,
    }
    return GapError(
        f"offsets {gap.first_offset} to {gap.last_offset} of partition {gap.partition} were dropped ({gap.reason})",
        facts=facts,
    )
