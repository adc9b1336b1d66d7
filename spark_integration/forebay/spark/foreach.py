"""Publishing from ``foreach``: for jobs that call a system row by row and publish the results.

    stream.writeStream.foreach(ForeachPublisher("orders", lambda row: ask(row.id))).start()

Spark reports no commits to ``foreach``, so a row is published at least once: a partition of a micro-batch is complete
only when all its records are durable, and a retried partition publishes again. It also works in Spark's real-time mode,
which does not support Python data sources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from forebay.client import Client, Publisher, Record, errors
from forebay.client.values.records import HeadersLike
from forebay.spark.connection.broker import connect, find_sink
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.foreach import ForeachOptions, foreach_options
from forebay.spark.remedies import explained
from forebay.spark.write.schema_registration import check_takes_records

if TYPE_CHECKING:
    from pyspark.sql import Row

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Types of binary values: a column of bytes is ``bytearray`` in the rows of older versions of Spark."""
BYTES: Final = (bytes, bytearray, memoryview)
ONE: Final = (*BYTES, str, Record)
"""Types of a single value."""
PublishedValue: TypeAlias = Bytes | str | Record | Iterable[Bytes | str | Record] | None


class ForeachPublisher:
    """Writer for ``foreach``. It is pickled; client and publisher are created in the tasks."""

    def __init__(
        self, sink: str, make: Callable[[Row], PublishedValue], options: Mapping[str, str] | None = None
    ) -> None:
        """Publish the records that ``make`` returns for each row: one, several or none.

        Text is encoded as UTF-8. ``options`` are those of ``format("forebay")`` that have an effect here: ``endpoint``,
        TLS and token, ``create_sink``, ``partitions``, ``delivery_timeout_s``, ``page_bytes``, ``linger_ms`` (5 by
        default) and ``window_pages``. Raises `ForebaySparkError`, for another option too.
        """
        self._options: ForeachOptions = foreach_options({**(options or {}), "sink": sink}, os.environ)
        self._make = make
        self._client: Client | None = None
        self._publisher: Publisher | None = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a partition of a micro-batch; called by Spark.

        Raises `ForebaySparkError`, for a sink of rows too: no reader accepts records among them.
        """
        options = self._options
        target = options.target
        try:
            with ExitStack() as undo:
                client = undo.enter_context(connect(target, patience_s=options.delivery_timeout_s))
                sink = find_sink(client, target.sink, create=options.create_sink, partitions=options.partitions)
                check_takes_records(client, target, sink.incarnation)
                self._publisher = client.publisher(
                    target.sink,
                    incarnation=sink.incarnation,
                    page_bytes=options.page_bytes,
                    linger_ms=options.linger_ms,
                    window_pages=options.window_pages,
                    delivery_timeout_s=options.delivery_timeout_s,
                )
                self._client = client
                undo.pop_all()
        except errors.ForebayError as error:
            raise explained(error, target, doing="write to") from error
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
            for one in (made,) if isinstance(made, ONE) else _several(made):
                if isinstance(one, Record):
                    key = None if one.key is None else _plain(one.key)
                    headers = _headers(one.headers)
                    self._publisher.send(_plain(one.value), key=key, headers=headers, event_time=one.event_time)
                else:
                    self._publisher.send(one.encode() if isinstance(one, str) else _plain(one))
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


def _several(made: Any) -> Iterable[Any]:
    if isinstance(made, Iterable):
        return made
    raise _not_publishable(made)


def _plain(value: Any) -> bytes:
    """Return a binary value as bytes, which cannot change before they are durable."""
    if not isinstance(value, BYTES):
        raise _not_publishable(value)
    return bytes(value)


def _headers(given: HeadersLike) -> HeadersLike:
    """Return headers whose binary values are bytes; the publisher reports those that it rejects."""
    if not given:
        return given
    return [_header(pair) for pair in (given.items() if isinstance(given, Mapping) else given)]


def _header(pair: Any) -> Any:
    if isinstance(pair, tuple) and len(pair) == len(("name", "value")) and isinstance(pair[1], bytearray | memoryview):
        return pair[0], bytes(pair[1])
    return pair


def _not_publishable(value: Any) -> ForebaySparkError:
    return ForebaySparkError(
        f"The function of ForeachPublisher returned a value of type {type(value).__name__}, which is no record.",
        "Return bytes, text, a forebay.client.Record of bytes, several of them, or None; make text of other values "
        "(str, json.dumps).",
    )
