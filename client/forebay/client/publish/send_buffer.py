"""Send buffer of a publisher: records that are accepted and not yet confirmed by the broker.

Users put records in and wait for room; the stream's threads take pages out and apply answers (``sender``). One
lock protects all of it and is held for bookkeeping only: encoding, sending and the completion of futures happen
outside.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Final

from forebay.client.errors import BufferFull, Closed, FlushTimeout, ForebayError
from forebay.client.publish.batches import RICH_RECORD_BYTES, Batch, Batches, PageBounds
from forebay.client.publish.completions import PageResult, RecordFuture
from forebay.client.publish.failures import FailureLog
from forebay.client.publish.pages import EncodedPage
from forebay.client.publish.sized_columns import HELD_BYTES, SizedColumns
from forebay.client.publish.window import Window, WindowPage
from forebay.client.settings import PublisherSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.io import Io
from forebay.client.transport.operations import blocked
from forebay.client.transport.threads import THREADS
from forebay.errors.reasons import Reason
from forebay.state.numbers import counted, plural

GRANT_BYTES: Final = 1 << 20
"""Largest grant: what a batch may take without a check of the bounds."""
_NEW: Final = object.__new__
"""Returns an object without a call of its class, which takes twice as long and counts once per record."""

OnFailure = Callable[[ForebayError, int], None]
"""Called with the failure of a page and its number of records."""


class SendBuffer:
    """Batches, window and buffer bound of one publisher."""

    def __init__(
        self,
        settings: PublisherSettings,
        telemetry: Telemetry,
        clock: Callable[[], float],
        on_failure: OnFailure | None = None,
        io: Io = THREADS,
    ) -> None:
        self.settings = settings
        self.on_failure = on_failure
        self.telemetry = telemetry
        self.clock = clock
        self.lock = threading.Lock()
        self._acquire, self._release = self.lock.acquire, self.lock.release
        """A ``with`` takes twice as long as these, which counts once per record."""
        self.work = io.condition(self.lock)
        """The sender waits here for pages to send."""
        self.room = io.condition(self.lock)
        """Users wait here for room, for the first `opened`, and for flushes."""
        self.change = io.condition(self.lock)
        """The stream's thread waits here for the end of a stream, for closing, and for the next expiry."""
        self.batches = Batches(PageBounds(settings.page_bytes, settings.page_records), settings.linger_ms / 1000)
        self._open = self.batches.by_partition
        self.window: Window[Batch] = Window(settings.window_pages)
        self.unfinished: dict[int, Batch] = {}
        """Unfinished batches by ticket, in ascending order."""
        self.reserved_bytes = 0
        """Memory that the records and pages of the unfinished batches take, and that is granted to open ones."""
        self._has_grants = False
        """True if an open batch may have a grant."""
        self._futures = threading.Lock()
        """Protects the futures of all pages; never held while a callback runs."""
        self.failures = FailureLog()
        self.fatal: ForebayError | None = None
        """Error that ended the publisher."""
        self.closing = False
        self.partitions = 0
        """Number of partitions; 0 until the first `opened`."""
        self.record_bytes_max = 0
        self.waiting = 0
        """Number of waiting users; while there are any, batches do not linger."""
        self._tickets = 0
        self._unkeyed = 0
        """Current partition of records without a key, until its page is full."""

    def put(self, partition: int | None, value: bytes, size: int, wait: bool = True) -> RecordFuture:
        """Add one record of ``size`` bytes that is only a value; ``wait`` for room, or raise ``BufferFull``.

        Usually it joins the open batch of its partition, within what was granted to it: whatever a page, a batch or a
        bound needs is not done here.
        """
        self._acquire()
        try:
            batch = self._open.get(self._unkeyed if partition is None else partition)
            if batch is None or (left := batch.room - size - HELD_BYTES) < 0:
                return self._add(partition, value, None, None, b"", size, size + HELD_BYTES, wait=wait)
            batch.room = left
            values = batch.values
            index = len(values)
            if batch.is_rich:
                batch.add(value, None, None, b"", size, 0)  # its memory is in the grant
            else:
                values.append(value)
        finally:
            self._release()
        future = _NEW(RecordFuture)
        future.page = batch.result
        future.index = index
        return future

    def put_rich(
        self,
        partition: int | None,
        value: bytes,
        key: bytes | None,
        event_time_us: int | None,
        headers: bytes,
        size: int,
        held_bytes: int,
        wait: bool = True,
    ) -> RecordFuture:
        """Add one record with a key, an event time or headers, as ``put``.

        ``size`` are its content bytes, ``held_bytes`` the memory that it takes, which is more than its part of a page.
        """
        self._acquire()
        try:
            batch = self._open.get(self._unkeyed if partition is None else partition)
            if batch is None or (left := batch.room - held_bytes) < 0 or not batch.is_rich:
                return self._add(partition, value, key, event_time_us, headers, size, held_bytes, wait=wait)
            batch.room = left
            batch.body_bytes += size + RICH_RECORD_BYTES
            values = batch.values
            index = len(values)
            values.append(value)
            keys, times, all_headers = batch.keys, batch.event_times_us, batch.headers
            if keys is not None:
                keys.append(key)
            elif key is not None:
                batch.keys = [*repeat(None, index), key]
            if times is not None:
                times.append(event_time_us)
            elif event_time_us is not None:
                batch.event_times_us = [*repeat(None, index), event_time_us]
            if all_headers is not None:
                all_headers.append(headers)
            elif headers:
                batch.headers = [*repeat(b"", index), headers]
        finally:
            self._release()
        future = _NEW(RecordFuture)
        future.page = batch.result
        future.index = index
        return future

    def _add(
        self,
        partition: int | None,
        value: bytes,
        key: bytes | None,
        event_time_us: int | None,
        headers: bytes,
        size: int,
        held_bytes: int,
        *,
        wait: bool,
    ) -> RecordFuture:
        """Add one record with a check of all bounds, and grant room to its batch. Under the lock."""
        is_rich = key is not None or event_time_us is not None or bool(headers)
        batch = self._admitted(partition, size, held_bytes, is_rich=is_rich, wait=wait)
        index = batch.count
        batch.add(value, key, event_time_us, headers, size, held_bytes)
        self.reserved_bytes += held_bytes
        if self.batches.bounds.is_full(batch):
            self.seal(batch.partition)
        else:
            self._grant(batch)
        return RecordFuture(batch.result, index)

    def _grant(self, batch: Batch) -> None:
        """Reserve room for the next records of a batch, which do not fill its page. Under the lock.

        A record takes at least `HELD_BYTES` of it, and at least its part of the page. All grants together leave room in
        the buffer, however many partitions there are. ``settle`` ends them.
        """
        bounds = self.batches.bounds
        room = min(
            GRANT_BYTES,
            bounds.body_bytes - batch.body_bytes,
            (bounds.records - batch.count - 1) * HELD_BYTES,
            (self.settings.buffer_bytes_max - self.reserved_bytes) // (2 * len(self._open)),
        )
        if room >= HELD_BYTES:
            batch.granted = batch.room = room
            batch.counted = batch.count
            batch.held_bytes += room
            self.reserved_bytes += room
            self._has_grants = True

    def settle(self) -> None:
        """End what was granted to the open batches. Under the lock."""
        if self._has_grants:
            self._has_grants = False
            for batch in self.batches:
                self.reserved_bytes -= batch.settle()

    @property
    def taken_bytes(self) -> int:
        """Memory that the records and pages of the unfinished batches take."""
        return self.reserved_bytes - sum(batch.room for batch in self.batches)

    async def put_many(
        self, partition: int | None, columns: SizedColumns, attach: Callable[[Batch, int], None]
    ) -> None:
        """Add many records, divided into pages.

        Complete pages are encoded immediately and without the lock, the remainder later.
        """
        first = 0
        is_rich = columns.keys is not None
        while first < len(columns):
            end = first + self.batches.bounds.count_fitting(None, columns.ends, first, is_rich=is_rich)
            if end < len(columns) and not self._is_begun(partition):
                await self._put_encoded(partition, columns.encode(first, end), partial(_attach_all, attach))
                first = end
                continue
            with self.lock:
                self._check_open()
                begun = self.batches.get(self._target(partition))
                if begun is not None:
                    self.reserved_bytes -= begun.settle()
                end = first + self.batches.bounds.count_fitting(begun, columns.ends, first, is_rich=is_rich)
                held_bytes = columns.held_bytes(first, end)
                if not self._has_room(held_bytes):
                    await self._await_room(held_bytes)
                    continue  # the batch may have been sealed meanwhile
                batch = self._batch(partition)
                if end > first:
                    batch.extend(columns, first, end)
                    attach(batch, end - first)
                    self.reserved_bytes += held_bytes
                    if self.batches.bounds.is_full(batch):
                        self.seal(batch.partition)
                if end < len(columns):
                    self.seal(batch.partition)
                first = end

    async def put_page(self, partition: int, page: EncodedPage) -> RecordFuture:
        """Add an encoded page, once there is room for it."""
        batch = await self._put_encoded(partition, page, lambda batch: None)
        return RecordFuture(batch.result, RecordFuture.WHOLE)

    async def wait_for_room(self, size: int) -> None:
        """Wait until a record or page that takes ``size`` bytes fits. Raises what ended the publisher."""
        with self.lock:
            await self._admit(size)

    def hurry(self, result: PageResult) -> None:
        """Send the page of a waiting caller without linger, once its partition awaits no other receipt.

        So a caller that waits for each record is not delayed, and records of many such callers share pages. The sender
        seals the page, not the caller: other callers add their records until it runs.
        """
        batch = self.batches.get(result.partition)
        if batch is None or batch.result is not result or batch.is_awaited:
            return  # read without the lock: it is sealed, which is final, or another caller has done the same
        with self.lock:
            batch = self.batches.get(result.partition)
            if batch is not None and batch.result is result:
                batch.is_awaited = True
                if self.window.is_idle(batch.partition, self.clock()):
                    self.work.notify()

    async def flush(self, timeout_s: float | None) -> None:
        """Wait until all records added before are finished; raise the first failure since the last flush."""
        until = None if timeout_s is None else self.clock() + timeout_s
        with self.lock:
            target = self._tickets
            with _Counted(self):
                while self.unfinished and next(iter(self.unfinished)) <= target:
                    left_s = None if until is None else until - self.clock()
                    if left_s is not None and left_s <= 0:
                        left = len(self.unfinished)
                        named = f"{counted(left, 'page')} {plural(left, 'is', 'are')}"
                        raise FlushTimeout(f"{named} not durable yet: flush again, or close")
                    await self.room.wait_for_notify(left_s)
            error = self.failures.pop() or (copy.copy(self.fatal) if self.fatal is not None else None)
        if error is not None:
            raise error

    async def await_opened(self, timeout_s: float) -> bool:
        """Wait for the first `opened`; return False after the timeout. Raises what ended the publisher."""
        until = self.clock() + timeout_s
        with self.lock:
            while not self.partitions:
                self._check_open()
                left_s = until - self.clock()
                if left_s <= 0:
                    return False
                await self.room.wait_for_notify(left_s)
        return True

    def close(self) -> None:
        """Accept no more records; the stream ends when the rest is finished."""
        with self.lock:
            self.closing = True
            self.settle()
            self.wake_all()

    def end(self, error: ForebayError) -> None:
        """Accept no more records because of an error, which users get. Under the lock."""
        if not self.closing:
            self.fatal = error
            self.settle()

    def seal(self, partition: int) -> None:
        """Queue the open batch of a partition, if there is one. Under the lock."""
        batch = self.batches.seal(partition)
        if batch is not None:
            self.reserved_bytes -= batch.settle()
            self._queue(batch)
            if partition == self._unkeyed:
                self._unkeyed = (partition + 1) % max(1, self.partitions)

    def wake_all(self) -> None:
        """Notify all waiting threads. Under the lock."""
        self.work.notify_all()
        self.room.notify_all()
        self.change.notify_all()

    def _check_open(self) -> None:
        if self.fatal is not None:
            raise copy.copy(self.fatal)
        if self.closing:
            raise Closed("the publisher is closed: open a new one", reason=Reason.PUBLISHER_CLOSED)

    def _has_room(self, size: int) -> bool:
        bound = self.settings.buffer_bytes_max
        if self.reserved_bytes + size > bound:
            self.settle()
        return not self.reserved_bytes or self.reserved_bytes + size <= bound

    def _check_room(self, size: int) -> None:
        self._check_open()
        if not self._has_room(size):
            taken, bound = self.reserved_bytes, self.settings.buffer_bytes_max
            raise BufferFull(
                f"{taken} bytes are not durable yet, {bound} may be (buffer_bytes_max): wait, or drop the record",
                facts={"size": str(taken), "bound": str(bound), "needed": str(size)},
            )

    async def _admit(self, size: int) -> None:
        self._check_open()
        if not self._has_room(size):
            await self._await_room(size)

    async def _await_room(self, size: int) -> None:
        with _Counted(self):
            while not self._has_room(size):
                await self.room.wait_for_notify()
                self._check_open()

    def _admitted(self, partition: int | None, size: int, held_bytes: int, *, is_rich: bool, wait: bool) -> Batch:
        """Return a batch that takes a record of ``size`` content bytes, once there is room for it."""
        if wait:
            blocked(self._admit(held_bytes))
        else:
            self._check_room(held_bytes)
        while not self.batches.bounds.fits(batch := self._batch(partition), size, is_rich=is_rich):
            self.seal(batch.partition)
        return batch

    def _batch(self, partition: int | None) -> Batch:
        """Return the open batch of a partition, a new one if there is none. Nothing is granted to it."""
        target = self._target(partition)
        batch = self.batches.get(target)
        if batch is None:
            batch = self._new_batch(target)
            self.batches.open(batch)
            self.work.notify()
        self.reserved_bytes -= batch.settle()
        return batch

    def _is_begun(self, partition: int | None) -> bool:
        """Return True if the next record joins a page with records. May be outdated immediately."""
        return self.batches.get(self._target(partition)) is not None

    async def _put_encoded(self, partition: int | None, page: EncodedPage, attach: Callable[[Batch], None]) -> Batch:
        size = len(page.body)
        with self.lock:
            await self._admit(size)
            target = self._target(partition)
            self.seal(target)
            batch = self._new_batch(target)
            batch.encoded = page
            batch.held_bytes = size
            attach(batch)
            self.reserved_bytes += size
            self._queue(batch)
            if partition is None:
                self._unkeyed = (target + 1) % max(1, self.partitions)
        return batch

    def _target(self, partition: int | None) -> int:
        return self._unkeyed if partition is None else partition

    def _new_batch(self, partition: int) -> Batch:
        self._tickets += 1
        context, result = self.telemetry.current_context(), PageResult(self._futures, partition, self.hurry)
        batch = Batch(partition, self.clock(), self._tickets, context, result=result)
        self.unfinished[batch.ticket] = batch
        return batch

    def _queue(self, batch: Batch) -> None:
        self.window.add(WindowPage(batch.partition, batch, batch.opened_at + self.settings.delivery_timeout_s))
        self.work.notify()


def _attach_all(attach: Callable[[Batch, int], None], batch: Batch) -> None:
    attach(batch, batch.count)


class _Counted:
    """Count a waiting user, so that the sender does not let batches linger."""

    def __init__(self, buffer: SendBuffer) -> None:
        self._buffer = buffer

    def __enter__(self) -> None:
        self._buffer.waiting += 1
        self._buffer.work.notify()

    def __exit__(self, *_: object) -> None:
        self._buffer.waiting -= 1
