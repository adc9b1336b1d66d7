"""Idempotent publisher: stores each record once, in order per partition, across reconnects.

    with client.publisher("orders") as publisher:
        future = publisher.send(b"value", key=b"k")
        publisher.send_many(values)
        publisher.flush()

Records that are not durable within ``delivery_timeout_s`` fail with ``DeliveryTimeout``. It is then unknown whether
they are stored, so sending them again may store them twice. All other records are stored exactly once.

With a ``Stage`` the records become visible only when ``Client.epochs.commit`` names their token. Such a publisher
stages all records or fails: the first failed record ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, cast

from forebay.client.publish.completions import ManyFuture
from forebay.client.publish.core import PublisherCore
from forebay.client.publish.pages import EncodedPage
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.client.values.records import Receipt


class Publisher(PublisherCore):
    """Writer of one sink. Thread-safe; not usable across ``fork``: open another one in the child.

    Created by ``Client.publisher``, which returns when the broker has accepted it.
    """

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        on_close: Callable[[Publisher], None] = lambda publisher: None,
        **options: Any,
    ) -> None:
        super().__init__(channels, sink, **options)
        self._on_close = on_close
        blocked(self.connect())

    def send_many(
        self,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
    ) -> Future[list[Receipt]]:
        """Add many records at once, in as few pages as possible, in order per partition.

        The future returns one receipt per page, or part of a page, in the order of the records, but grouped by
        partition if the keys select several. Blocks and raises as ``send``. If the call itself rejects a record, it
        adds none.
        """
        future = ManyFuture()
        blocked(self.add_many(values, keys, partition, future))
        return cast("Future[list[Receipt]]", future)

    def send_page(self, page: EncodedPage, *, partition: int) -> Future[Receipt]:
        """Add an encoded page (``forebay.client.publish.pages``), after the queued records of its partition.

        Raises ``InvalidPage`` for a body over 1 MiB with more than one record, and the errors of ``send``.
        """
        return blocked(self.add_page(page, partition))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all sent records are durable; raise the first failure since the last flush.

        Raises ``FlushTimeout`` after ``timeout_s``. Without it, ``delivery_timeout_s`` limits the wait.
        """
        blocked(self.finish(timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, close the writer at the broker, and end the threads. Idempotent.

        Raises the first failure since the last flush. Records that are not durable after ``timeout_s`` fail with
        ``PUBLISH_ABANDONED``.
        """
        try:
            blocked(self.shut(timeout_s))
        finally:
            if self.is_closed:
                self._on_close(self)

    def abandon(self) -> None:
        """Close without waiting: records that are not durable fail with ``PUBLISH_ABANDONED``."""
        blocked(self.end())
        self._on_close(self)

    def __enter__(self) -> Self:
        """Return the publisher itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception without waiting, so that an outage does not delay the exception."""
        if kind is None:
            self.close()
        else:
            self.abandon()
