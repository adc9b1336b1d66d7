"""Publisher of the asyncio client, with the buffer, pages and streams of the thread client.

async with await client.publisher("orders") as publisher:
    receipt = await publisher.send(b"value", key=b"k")
    print((await receipt).offset)
    await publisher.flush()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

from forebay.client.aio.loop import complete
from forebay.client.errors import BufferFull
from forebay.client.publish.completions import ManyFuture, PublishFuture
from forebay.client.publish.core import PublisherCore
from forebay.client.publish.pages import EncodedPage
from forebay.client.values.epochs import Stage, StagedToken
from forebay.client.values.records import HeadersLike, Receipt

T = TypeVar("T")


class Pending(Generic[T]):
    """Receipt, or several, of records in transit. Awaiting it returns the receipts or raises the failure.

    It may be awaited by several tasks and several times, or not at all. Waiting ends the linger of the records. Records
    in transit cannot be recalled: a task that is cancelled while it waits has no effect on them.
    """

    __slots__ = ("_future",)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self) -> bool:
        """Return True if the records are durable or have failed."""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the receipt."""
        if not self._future.done():
            loop = asyncio.get_running_loop()
            done = loop.create_future()
            cast(PublishFuture, self._future).begin_wait()
            self._future.add_done_callback(lambda _: complete(done))
            yield from done
        return self._future.result()


class Publisher:
    """Writer of one sink, for the tasks of one event loop. Created by ``Client.publisher``."""

    def __init__(self, core: PublisherCore, on_close: Callable[[Publisher], None]) -> None:
        self._core = core
        self._on_close = on_close
        self.sink: Final = core.sink
        self.stage: Final[Stage | None] = core.stage
        self.writer_id: Final = core.writer_id

    @property
    def partitions(self) -> int:
        """Number of partitions of the sink."""
        return self._core.partitions

    @property
    def incarnation(self) -> str:
        """Incarnation of the sink; if the sink is deleted and recreated, the publisher ends."""
        return self._core.incarnation

    def staged(self) -> StagedToken:
        """Return the token of the durably staged records, for the commit; ``flush`` or ``close`` first."""
        return self._core.staged()

    def send_nowait(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        event_time: datetime | int | None = None,
        partition: int | None = None,
    ) -> Pending[Receipt]:
        """Add a record; raises ``BufferFull`` if there is no room. See ``send``."""
        self._core.check_loop()
        return Pending(
            self._core.send(value, key=key, headers=headers, event_time=event_time, partition=partition, wait=False)
        )

    async def send(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        event_time: datetime | int | None = None,
        partition: int | None = None,
    ) -> Pending[Receipt]:
        """Add a record, once there is room for it; awaiting the result returns its receipt.

        Arguments and errors are those of ``forebay.client.Publisher.send``. A cancelled call has added nothing. The
        records of consecutive calls keep their order.
        """
        while True:
            try:
                return self.send_nowait(value, key=key, headers=headers, event_time=event_time, partition=partition)
            except BufferFull as full:
                await self._core.wait_for_room(int(full.facts["needed"]))

    async def send_and_wait(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        event_time: datetime | int | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Add a record and return its receipt, once it is durable. See ``send``.

        A task that is cancelled while it waits for the receipt has no effect on the record.
        """
        return await (await self.send(value, key=key, headers=headers, event_time=event_time, partition=partition))

    async def send_many(
        self,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
    ) -> Pending[list[Receipt]]:
        """Add many records at once, once there is room for them.

        Awaiting the result returns one receipt per page, or part of a page. Arguments and errors are those of
        ``forebay.client.Publisher.send_many``. Records that do not fit into the buffer are added in parts: a cancelled
        call may have added the first records of each partition.
        """
        self._core.check_loop()
        future = ManyFuture()
        await self._core.add_many(values, keys, partition, future)
        return Pending(cast("Future[list[Receipt]]", future))

    async def send_page(self, page: EncodedPage, *, partition: int) -> Pending[Receipt]:
        """Add an encoded page, once there is room for it, after the queued records of its partition."""
        self._core.check_loop()
        return Pending(await self._core.add_page(page, partition))

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all sent records are durable; raise the first failure since the last flush.

        Raises ``FlushTimeout`` after ``timeout_s``. Without it, ``delivery_timeout_s`` limits the wait.
        """
        self._core.check_loop()
        await self._core.finish(timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, close the writer at the broker, and end the tasks. Idempotent.

        Raises the first failure since the last flush. Records that are not durable after ``timeout_s`` fail with
        ``PUBLISH_ABANDONED``. A cancelled call may be repeated: records are still being sent.
        """
        self._core.check_loop()
        try:
            await self._core.shut(timeout_s)
        finally:
            if self._core.is_closed:
                self._on_close(self)

    async def abandon(self) -> None:
        """Close without waiting: records that are not durable fail with ``PUBLISH_ABANDONED``."""
        self._core.check_loop()
        try:
            await self._core.end()
        finally:
            self._on_close(self)

    def cut(self) -> None:
        """Close at once, without a wait. See ``abandon``."""
        self._core.cut()
        self._on_close(self)

    async def __aenter__(self) -> Self:
        """Return the publisher itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception without waiting, so that an outage does not delay the exception."""
        if kind is None:
            await self.close()
        else:
            await self.abandon()
