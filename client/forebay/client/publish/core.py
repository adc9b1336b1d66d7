"""Core of a publisher, for the thread client and for the asyncio client.

It checks records and puts them into the buffer. Its waits go through the ``Io`` of the client. Only ``send`` with
``wait`` blocks the thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Final
from zlib import crc32

from forebay.client.admin.epochs import stage_message
from forebay.client.errors import (
    BrokerUnavailable,
    Closed,
    FailedPrecondition,
    ForebayError,
    InvalidArgument,
    InvalidPage,
    RecordTooLarge,
)
from forebay.client.publish.batches import Batch
from forebay.client.publish.completions import BulkFuture, ManyFuture, PageResult, RecordFuture
from forebay.client.publish.pages import EncodedPage
from forebay.client.publish.send_buffer import OnFailure, SendBuffer
from forebay.client.publish.sized_columns import HELD_BYTES, SizedColumns, check_types
from forebay.client.publish.stream import PublishStream
from forebay.client.settings import PublisherSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.forks import PROCESS
from forebay.client.values import convert
from forebay.client.values.epochs import Stage, StagedToken
from forebay.client.values.records import HeadersLike, Receipt
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_BYTES_MAX
from forebay.state.numbers import counted

GOODBYE_S: Final = 10.0
"""Time that ``close`` waits for the broker to end the stream after everything is finished."""


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key: CRC-32 (zlib) of ``key``, modulo the number of partitions."""
    return crc32(key) % partitions


class PublisherCore:
    """Writer of one sink. Not usable across ``fork``."""

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        settings: PublisherSettings,
        writer_id: str | None = None,
        stage: Stage | None = None,
        incarnation: str = "",
        clock: Callable[[], float] = time.monotonic,
        on_failure: OnFailure | None = None,
    ) -> None:
        self.sink: Final = sink
        self.stage: Final = stage
        self.writer_id: Final = writer_id or uuid.uuid4().hex
        self._forks = PROCESS.forks
        self._io = channels.io
        self.is_closed = False
        """True once the publisher has ended."""
        self._delivery_timeout_s = settings.delivery_timeout_s
        self._buffer = SendBuffer(
            settings, Telemetry(sink, server=channels.server_of(sink)), clock, on_failure, channels.io
        )
        staging = None if stage is None else stage_message(stage)
        named = incarnation or (stage.incarnation if stage is not None else "")
        self._stream = PublishStream(channels, sink, self.writer_id, self._buffer, staging, named)

    async def connect(self) -> None:
        """Start; return when the broker has accepted the publisher. Otherwise it is abandoned."""
        self._stream.start()
        accepted = False
        try:
            accepted = await self._buffer.await_opened(self._delivery_timeout_s)
        finally:
            if not accepted:
                await self.end()
        if not accepted:
            why = self._stream.last_error
            raise BrokerUnavailable(
                f"the publisher of sink {self.sink!r} could not be opened within {self._delivery_timeout_s:g} s: "
                f"{'no answer' if why is None else why}"
            ) from why

    @property
    def partitions(self) -> int:
        """Number of partitions of the sink."""
        return self._buffer.partitions

    @property
    def incarnation(self) -> str:
        """Incarnation of the sink; if the sink is deleted and recreated, the publisher ends."""
        return self._stream.incarnation

    def staged(self) -> StagedToken:
        """Return the token of the durably staged records, for the commit; ``flush`` or ``close`` first."""
        if self.stage is None:
            raise FailedPrecondition(
                "this publisher has no staged pages: open it with a stage", reason=Reason.STAGING_UNSUPPORTED
            )
        return StagedToken(self.stage.token, tuple(self._stream.stored()), self.incarnation)

    def send(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        event_time: datetime | int | None = None,
        partition: int | None = None,
        wait: bool = True,
    ) -> Future[Receipt]:
        """Add a record; its future returns its own receipt (``first_offset == last_offset``).

        A record with a key goes to partition CRC-32(key) modulo partitions. Records without a key fill the partitions
        in turn, a page each. ``partition`` overrides both. Blocks while the buffer is full, or raises ``BufferFull``
        then if ``wait`` is False; do not block in the callback of a future, because that runs on the thread that frees
        the buffer. ``event_time`` is an aware ``datetime``, or microseconds since 1970 UTC.

        A caller that waits in ``result`` or ``exception`` ends the linger of its page, once no other page of the
        partition awaits its receipt. An unused future costs next to nothing: ``flush`` raises the first failure, and
        ``on_failure`` of the publisher is called for each.

        Raises ``RecordTooLarge``, ``INVALID_PARTITION``, ``InvalidPage``, ``PUBLISHER_CLOSED``,
        ``USED_AFTER_FORK``, and the error that ended the publisher (``WriterFenced``, ``SinkNotFound``,
        ``SinkReplaced``, ...).
        """
        if self._forks != PROCESS.forks or partition is not None:
            self._check(partition)
        if type(value) is not bytes or (key is not None and type(key) is not bytes):
            raise InvalidPage("value must be bytes, key must be bytes or None")
        size, buffer = len(value), self._buffer
        if key is None and event_time is None and not headers:
            if size > buffer.record_bytes_max:
                self._check_size(size)
            return buffer.put(partition, value, size, wait)
        overhead, stored, time_us = HELD_BYTES, b"", None
        if headers:
            stored = convert.headers_message(headers)
            size += len(stored)
            overhead += HELD_BYTES
        if key is not None:
            size += len(key)
            overhead += HELD_BYTES
            if partition is None:
                partition = crc32(key) % buffer.partitions
        if size > buffer.record_bytes_max:
            self._check_size(size)
        if event_time is not None:
            time_us = convert.to_us(event_time)
            overhead += HELD_BYTES
        return buffer.put_rich(partition, value, key, time_us, stored, size, size + overhead, wait)

    async def add_many(
        self, values: Sequence[bytes], keys: Sequence[bytes | None] | None, partition: int | None, future: ManyFuture
    ) -> None:
        """Add many records; ``future`` gets their receipts. See ``Publisher.send_many``."""
        self._check(partition)
        if keys is not None and len(keys) != len(values):
            raise InvalidPage(
                f"keys has {counted(len(keys), 'entry', 'entries')}: must be {len(values)}, one per value"
            )
        check_types(values, keys)
        if keys is None or partition is not None:
            parts = [(partition, SizedColumns.of(values, keys))]
        else:
            parts = [(target, SizedColumns.of(*some)) for target, some in self._by_partition(values, keys).items()]
        for _, columns in parts:
            if columns.ends[-1] > self._buffer.record_bytes_max:
                self._check_size(columns.largest())
        bulk = BulkFuture(future)
        error: ForebayError | None = None
        try:
            for target, columns in parts:
                await self._put_many(target, columns, bulk, future.pages)
        except ForebayError as failure:
            error = failure
            raise
        finally:
            bulk.seal(error)

    async def add_page(self, page: EncodedPage, partition: int) -> RecordFuture:
        """Add an encoded page. See ``Publisher.send_page``."""
        self._check(partition)
        if page.record_count == 1:
            self._check_size(len(page.body))
        elif len(page.body) > PAGE_BYTES_MAX:
            raise InvalidPage(f"a page of {len(page.body)} bytes: must be at most {PAGE_BYTES_MAX}")
        return await self._buffer.put_page(partition, page)

    async def finish(self, timeout_s: float | None) -> None:
        """Wait until all records are durable. See ``Publisher.flush``."""
        self._check(None)
        await self._buffer.flush(timeout_s)

    async def shut(self, timeout_s: float | None) -> None:
        """Flush and end the stream; abandon the publisher if that does not succeed. Idempotent.

        A cancelled call may be repeated: records are still being sent.
        """
        if self._forks != PROCESS.forks or self.is_closed:
            return
        self._buffer.close()
        failure: ForebayError | None = None
        try:
            await self._buffer.flush(timeout_s)
        except ForebayError as error:
            failure = error
        if not await self._stream.join(GOODBYE_S if timeout_s is None else min(timeout_s, GOODBYE_S)):
            await self.end()
        self.is_closed = True
        if failure is not None:
            raise failure

    async def end(self) -> None:
        """Close without waiting: records that are not durable fail with ``PUBLISH_ABANDONED``."""
        if self._forks != PROCESS.forks:
            return
        self.cut()
        await self._stream.join(None)

    def cut(self) -> None:
        """End as ``end``, and leave the end of the jobs to themselves."""
        self._buffer.close()
        self._stream.abandon()
        self.is_closed = True

    def check_loop(self) -> None:
        """Raise ``FOREIGN_LOOP`` outside of the event loop of an asyncio client."""
        self._io.check()

    async def wait_for_room(self, size: int) -> None:
        """Wait until a record or page that takes ``size`` bytes of memory fits into the buffer."""
        await self._buffer.wait_for_room(size)

    def _check(self, partition: int | None) -> None:
        if self._forks != PROCESS.forks:
            raise Closed(
                "this publisher was opened before fork: open a new one in this process", reason=Reason.USED_AFTER_FORK
            )
        if partition is not None and not 0 <= partition < self._buffer.partitions:
            highest = self._buffer.partitions - 1
            raise InvalidArgument(
                f"partition = {partition}: must be 0 to {highest} in sink {self.sink!r}",
                reason=Reason.INVALID_PARTITION,
                facts={"partition": str(partition), "partitions": str(self._buffer.partitions)},
            )

    def _check_size(self, size: int) -> None:
        if size > self._buffer.record_bytes_max:
            bound = self._buffer.record_bytes_max
            raise RecordTooLarge(
                f"a record has {size} bytes: must be at most {bound} bytes (record_bytes_max of the broker)",
                facts={"size": str(size), "bound": str(bound)},
            )

    async def _put_many(
        self, partition: int | None, columns: SizedColumns, bulk: BulkFuture, pages: dict[int, PageResult]
    ) -> None:
        """Add records; ``pages`` gets the result of the last page of each partition."""

        def attach(batch: Batch, count: int) -> None:
            pages[batch.partition] = batch.result
            batch.complete_many(bulk, count)

        await self._buffer.put_many(partition, columns, attach)

    def _by_partition(
        self, values: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> dict[int | None, tuple[list[bytes], list[bytes | None]]]:
        groups: dict[int | None, tuple[list[bytes], list[bytes | None]]] = {}
        partitions = self._buffer.partitions
        for value, key in zip(values, keys, strict=True):
            target = None if key is None else partition_of(key, partitions)
            group = groups.get(target)
            if group is None:
                group = groups[target] = ([], [])
            group[0].append(value)
            group[1].append(key)
        return groups
