"""Publishing from ``foreach``: for jobs that call a system row by row and publish the results.

    stream.writeStream.foreach(ForeachPublisher("orders", lambda row: ask(row.id))).start()

Spark reports no commits to ``foreach``, so a row is published at least once: a partition of a micro-batch is complete
only when all its records are durable, and a retried partition publishes again. It also works in Spark's real-time mode,
which does not support Python data sources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from forebay.client import Client, Publisher, Record, errors
from forebay.spark.connection.broker import connect
from forebay.spark.options.write import Delivery, WriteOptions, write_options
from forebay.spark.remedies import explained

if TYPE_CHECKING:
    from pyspark.sql import Row

ONE: Final = (bytes, str, Record)
"""Types of a single value."""
PublishedValue = bytes | str | Record | Iterable[bytes | str | Record] | None


class ForeachPublisher:
    """Writer for ``foreach``. It is pickled; client and publisher are created in the tasks."""

    def __init__(
        self, sink: str, make: Callable[[Row], PublishedValue], options: Mapping[str, str] | None = None
    ) -> None:
        """Publish the records that ``make`` returns for each row: one, several or none.

        Text is encoded as UTF-8. ``options`` are those of ``format("forebay")``. Raises `ForebaySparkError`.
        """
        given = {**(options or {}), "sink": sink, "delivery": Delivery.AT_LEAST_ONCE}
        self._options: WriteOptions = write_options(given, os.environ, is_stream=True)
        self._make = make
        self._client: Client | None = None
        self._publisher: Publisher | None = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a partition of a micro-batch; called by Spark. Raises `ForebaySparkError`."""
        options = self._options
        self._client = connect(options.target, patience_s=options.delivery_timeout_s)
        try:
            self._publisher = self._client.publisher(
                options.target.sink,
                window_pages=options.window_pages,
                delivery_timeout_s=options.delivery_timeout_s,
            )
        except errors.ForebayError as error:
            self._client.close()
            raise explained(error, options.target, doing="write to") from error
        return True

    def process(self, row: Row) -> None:
        """Publish the records of a row; called by Spark. Raises `ForebaySparkError`."""
        assert self._publisher is not None, "Spark opens before it processes"
        made = self._make(row)
        if made is None:
            return
        try:
            if type(made) is bytes:  # most rows are one value
                self._publisher.send(made)
                return
            for one in (made,) if isinstance(made, ONE) else made:
                if isinstance(one, Record):
                    self._publisher.send(one.value, key=one.key, headers=one.headers, event_time=one.event_time)
                else:
                    self._publisher.send(one.encode() if isinstance(one, str) else one)
        except errors.ForebayError as error:
            raise explained(error, self._options.target, doing="write to") from error

    def close(self, error: Exception | None) -> None:
        """End a partition when all records are durable; called by Spark. Raises `ForebaySparkError`."""
        if self._publisher is None or self._client is None:
            return
        try:
            if error is not None:
                self._publisher.abandon()
            else:
                self._publisher.close()
        except errors.ForebayError as failure:
            raise explained(failure, self._options.target, doing="write to") from failure
        finally:
            self._client.close()
