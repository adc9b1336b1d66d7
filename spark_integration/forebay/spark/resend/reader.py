"""Stream reader of a subscription's retry queue; a commit of Spark settles the records.

Planning a micro-batch leases a set under a name that is in the checkpoint; Spark's commit settles the set. This object
is used in the driver. A task uses another instance, which has only its constructor arguments and its `ResendSplit`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from forebay.client import Client, ResendRanges, SettleOutcome, errors
from forebay.spark.connection.driver import DriverConnection, check_incarnation
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import ReadOptions, ResendOptions
from forebay.spark.read.rows import page_reader
from forebay.spark.read.sink_view import view
from forebay.spark.resend.sets import Json, SetOffset, parsed_set, splits
from forebay.spark.resend.task_reader import ResendSplit, read_resends
from forebay.spark.versions import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

_log: Final = logging.getLogger(__name__)
RECORDS: Final = 10_000
"""Default number of records per micro-batch."""
RECORDS_MAX: Final = 1_000_000
"""Maximum number of records per lease at the broker."""
_SETTLED: Final = (SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED)


class ForebayResendReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver and reads them in tasks."""

    def __init__(self, options: ReadOptions, resend: ResendOptions, schema: StructType) -> None:
        """Read the columns of ``schema``: those of the source, or those set by the user.

        Raises `ForebaySparkError` for columns that the sink does not have.
        """
        self._options = options
        self._resend = resend
        self._pages = page_reader(options, schema, is_stream=True)
        self._call = DriverConnection(options.target)
        self._initial: SetOffset | None = None
        """Cached initial offset: Spark asks twice, and it must be the same both times."""
        self._settled: str | None = None
        """Holder of the last settled set."""
        self._left: int | None = None
        """Number of records left to read, with `Trigger.AvailableNow`."""

    def initialOffset(self) -> Json:
        """Return the initial offset of the query, before its first set. Raises `ForebaySparkError`."""
        if self._initial is None:
            found = self._call(lambda client: view(client, self._options.target.sink))
            self._initial = SetOffset(found.incarnation, f"spark-{secrets.token_hex(8)}")
        return self._initial.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options."""
        if self._options.max_records_per_trigger is None and self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadMaxRows(min(self._options.max_records_per_trigger or RECORDS, RECORDS_MAX))

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the size of the retry queue; the query ends after reading as many records."""
        self._left = self._call(self._backlog)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Lease the next set and return the position after it; ``start`` itself if the queue is empty.

        Spark has committed ``start``. It also calls this when the stream is idle or ends, and calls `commit` later.
        """
        begin = parsed_set(start)
        self._check_same(begin)
        self._settle(begin)
        if self._left is not None and self._left <= 0:
            return begin.json()
        records, size = self._bounds(limit)
        wanted = begin.next(())
        found = self._call(
            lambda client: client.resends.lease(
                self._options.target.sink,
                self._resend.subscription,
                holder=wanted.holder,
                duration_s=self._resend.lease_s,
                records_max=records,
                bytes_max=size,
                before_due=self._resend.before_due,
                incarnation=begin.incarnation,
            )
        )
        if not found.partitions:
            return begin.json()
        if self._left is not None:
            self._left -= found.records
        return begin.next(found.partitions).json()

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Divide a set into splits, and lease it again, because a restarted query resumes it by name."""
        first, last = parsed_set(start), parsed_set(end)
        self._check_same(last)
        if last.number <= first.number:
            return []
        self._settle(first)
        self._lease_again(last)
        return [
            ResendSplit(piece) for part in last.parts for piece in splits(part, self._options.max_records_per_split)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split. Raises `ForebaySparkError`."""
        if isinstance(partition, ResendSplit):  # Spark passes another one when there is nothing to read
            yield from read_resends(self._options, self._pages, partition.part)

    def commit(self, end: Json) -> None:
        """Settle a set. Spark calls it when it plans the next one, which has settled it already."""
        try:
            self._settle(parsed_set(end))
        except ForebaySparkError as error:
            if not isinstance(error.__cause__, errors.BrokerUnavailable):
                raise
            _log.warning("settling waits for the broker sink=%s: %s", self._options.target.sink, error.__cause__)

    def stop(self) -> None:
        """Close the connection."""
        self._call.close()

    def _settle(self, upto: SetOffset) -> None:
        """Settle a committed set. Idempotent."""
        if not upto.parts or self._settled == upto.holder:
            return
        sink, name = self._options.target.sink, self._resend.subscription
        results = self._call(lambda client: client.resends.settle(sink, name, holder=upto.holder, ranges=upto.parts))
        self._settled = upto.holder
        left = [one for one in results if one.outcome not in _SETTLED]
        if left:
            records = sum(one.last_offset - one.first_offset + 1 for one in left)
            _log.warning(
                "records are leased by another holder and will be processed again sink=%s subscription=%s records=%d",
                *(sink, name, records),
            )

    def _lease_again(self, planned: SetOffset) -> None:
        sink, name = self._options.target.sink, self._resend.subscription
        found = self._call(
            lambda client: client.resends.lease_again(
                sink, name, holder=planned.holder, ranges=planned.parts, duration_s=self._resend.lease_s
            )
        )
        lost = _records(planned.parts) - found.records
        if lost:
            _log.warning(
                "records of a batch are settled or leased by another holder sink=%s subscription=%s records=%d",
                *(sink, name, lost),
            )

    def _bounds(self, limit: ReadLimit) -> tuple[int, int | None]:
        records, size = RECORDS_MAX, self._options.max_bytes_per_trigger
        match limit:
            case ReadMaxRows(max_rows):
                records = min(max_rows, RECORDS_MAX)
            case ReadMaxBytes(max_bytes):
                size = max_bytes
            case ReadAllAvailable():
                size = None
        return records if self._left is None else min(records, self._left), size

    def _backlog(self, client: Client) -> int:
        found = client.sinks.stats(self._options.target.sink)
        return sum(
            part.parked_records
            for one in found.subscriptions
            if one.name == self._resend.subscription
            for part in one.partitions
        )

    def _check_same(self, offset: SetOffset) -> None:
        target = self._options.target
        check_incarnation(offset.incarnation, self._call(lambda client: view(client, target.sink)), target)


def _records(parts: Sequence[ResendRanges]) -> int:
    return sum(part.records for part in parts)
