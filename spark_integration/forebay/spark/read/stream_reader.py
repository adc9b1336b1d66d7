"""Stream reader: follows a sink from the position in the checkpoint.

Optionally the position is also in a subscription, and in a store. Offsets are never reused in a sink, so that a
repeated micro-batch has the same rows. This object is used in the driver. A task uses another instance, which has only
its constructor arguments and its `Split`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from forebay.client import Client, errors
from forebay.spark.connection.driver import DriverConnection, check_incarnation
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import ReadOptions
from forebay.spark.read.admission import Bounds, admitted
from forebay.spark.read.offsets import Json, StreamOffset, parsed, start_of_batch
from forebay.spark.read.ranges import plan_batch, plan_start
from forebay.spark.read.rows import page_reader
from forebay.spark.read.saved_positions import SavedPositions
from forebay.spark.read.settlement import Settlement
from forebay.spark.read.sink_view import SinkView, resolved, view
from forebay.spark.read.task_reader import Split, read_split
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


class ForebayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver and reads them in tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read the columns of ``schema``: those of the source, or those set by the user.

        Raises `ForebaySparkError` for columns that the sink does not have.
        """
        self._options = options
        self._pages = page_reader(options, schema, is_stream=True)
        self._call = DriverConnection(options.target)
        self._initial: StreamOffset | None = None
        """Cached initial offset: Spark asks twice, and ``latest`` must be the same both times."""
        self._settlement = Settlement(options, options.subscription) if options.subscription is not None else None
        self._saved: SavedPositions | None = None
        if options.checkpoint is not None:
            self._saved = SavedPositions(
                options.checkpoint, options.target.sink, accepts_loss=not options.fail_on_data_loss
            )
        self._target: Mapping[int, int] | None = None
        """End of a query with `Trigger.AvailableNow`."""
        self._seen: StreamOffset | None = None
        """Last known end of the sink."""
        self._planned: StreamOffset | None = None
        """End of the last micro-batch, for Spark versions that do not pass the start of the next one."""
        self._start_unknown = True
        """False once this object has planned the start of a micro-batch, or resumed it."""
        self._resumed_batch: tuple[StreamOffset, StreamOffset, Mapping[int, int]] | None = None
        """Micro-batch that `partitions` has resumed, and its start, which stays the same."""

    def initialOffset(self) -> Json:
        """Return the initial offset of the query. Raises `ForebaySparkError`."""
        if self._initial is None:
            self._initial = self._call(self._find_start)
        return self._initial.json()

    def _find_start(self, client: Client) -> StreamOffset:
        found = view(client, self._options.target.sink)
        settlement = self._settlement

        def default(partitions: Collection[int]) -> Mapping[int, int]:
            settled = settlement.position(found) if settlement is not None else None
            if settled is not None:
                return settled
            return plan_start(resolved(client, self._options, found), found.stored, partitions)

        if self._saved is not None:
            start: Mapping[int, int] = self._saved.begin(client, found, default)
            if settlement is not None:
                settlement.create(client, found, dict(start))
        elif settlement is not None:
            start = settlement.begin(client, found)
        else:
            start = default([one.partition for one in found.stored])
        return StreamOffset(found.incarnation, start, initial=True)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options."""
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the end of the sink, at which the query ends."""
        self._target = self._call(self._view).ends()

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        """Return the end of the micro-batch from ``start``; ``start`` itself if there is no new record.

        Spark has committed ``start``. It also calls this when the stream is idle or ends, and calls `commit` later.
        Before Spark 4.2 it passes no arguments, and there is no limit.
        """
        if start is None or limit is None:
            return self._without_start()
        begin = parsed(start)
        found = self._call(self._view)
        self._check_same(begin, found)
        self._settle(begin)
        self._start_unknown = False
        return self._end(begin, found, limit, self._resumed(begin.partitions, found)).json()

    def _without_start(self) -> Json:
        found = self._call(self._view)
        begin = self._planned or self._initial
        if begin is None:
            # The query continues from a checkpoint that Spark has not passed on: it has read the records before it.
            self._planned = StreamOffset(found.incarnation, {one.partition: one.next for one in found.stored})
        else:
            self._check_same(begin, found)
            self._planned = self._end(begin, found, ReadAllAvailable(), self._resumed(begin.partitions, found))
        return self._planned.json()

    def _resumed(self, begin: Mapping[int, int], found: SinkView) -> Mapping[int, int]:
        """Return the start of the next micro-batch: the end of the last one, or later if saved."""
        saved = self._saved
        if saved is None:
            return begin
        return self._call(lambda client: saved.resume(client, found, begin))

    def _end(self, begin: StreamOffset, found: SinkView, limit: ReadLimit, start: Mapping[int, int]) -> StreamOffset:
        stored = found.stored
        if self._target is not None:
            stored = tuple(one.up_to(self._target.get(one.partition, 0)) for one in stored)
        end = admitted(start, stored, self._bounds(limit))
        if all(offset <= begin.at(partition) for partition, offset in end.items()):
            return begin
        is_behind = any(offset > begin.at(partition) for partition, offset in start.items())
        return StreamOffset(found.incarnation, {**start, **end}, began=start if begin.initial or is_behind else None)

    def reportLatestOffset(self) -> Json | None:
        """Return the last known end of the sink."""
        return None if self._seen is None else self._seen.json()

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Divide a micro-batch into splits. Raises `ForebaySparkError`."""
        first, last = parsed(start), parsed(end)
        self._planned = last
        found = self._call(self._view)
        self._check_same(first, found)  # before Spark 4.2 nothing else compares the offset of the checkpoint
        self._check_same(last, found)
        if self._start_unknown:
            self._resumed_batch = (first, last, self._resumed_start(first, last, found))
            self._start_unknown = False
        resumed = self._resumed_batch
        begin = resumed[2] if resumed is not None and resumed[:2] == (first, last) else start_of_batch(first, last)
        spans = plan_batch(self._options, begin, last.partitions)
        return [Split(span, last.incarnation) for span in spans]

    def _resumed_start(self, first: StreamOffset, last: StreamOffset, found: SinkView) -> Mapping[int, int]:
        """Return the start of the first micro-batch that this object sees: a planned one, or a repeated one.

        It is the later of Spark's and the saved position, which is that of a micro-batch that was committed. The first
        one of the query stays as it was planned; the positions begin where it began, which may be another offset than
        the start of a query that is decided now.
        """
        begin = dict(start_of_batch(first, last))
        if first.initial:
            self._resumed(begin, found)
            return begin
        for partition, saved in self._resumed(first.partitions, found).items():
            if begin.get(partition, 0) < saved:
                begin[partition] = max(begin.get(partition, 0), min(saved, last.at(partition)))
        return begin

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split. Raises `ForebaySparkError`."""
        if isinstance(partition, Split):  # Spark passes another one when there is nothing to read
            yield from read_split(self._options, self._pages, partition)

    def commit(self, end: Json) -> None:
        """Settle the batches up to ``end``. Spark calls it when it plans the next one."""
        self._settle(parsed(end))

    def stop(self) -> None:
        """Save the last position, and close the connection."""
        if self._saved is not None:
            self._saved.close()
        self._call.close()

    def _settle(self, upto: StreamOffset) -> None:
        if upto.initial or (self._seen is not None and self._seen.incarnation != upto.incarnation):
            return
        saved, settlement = self._saved, self._settlement
        if saved is not None:
            self._call(lambda client: saved.save(upto.partitions))
        if settlement is None:
            return
        try:
            self._call(lambda client: settlement.settle(client, upto))
        except ForebaySparkError as error:
            if not isinstance(error.__cause__, errors.BrokerUnavailable):
                raise
            _log.warning("settling waits for the broker sink=%s: %s", self._options.target.sink, error.__cause__)

    def _bounds(self, limit: ReadLimit) -> Bounds:
        match limit:
            case ReadMaxRows(max_rows):
                return Bounds(records=max_rows, bytes=self._options.max_bytes_per_trigger)
            case ReadMaxBytes(max_bytes):
                return Bounds(bytes=max_bytes)
        return Bounds()

    def _view(self, client: Client) -> SinkView:
        found = view(client, self._options.target.sink)
        self._seen = StreamOffset(found.incarnation, found.ends())
        return found

    def _check_same(self, offset: StreamOffset, found: SinkView) -> None:
        check_incarnation(offset.incarnation, found, self._options.target)
        for one in found.stored:
            if one.next < offset.at(one.partition):
                raise ForebaySparkError(
                    f"The query is at offset {offset.at(one.partition)} of partition {one.partition} of sink "
                    f"{self._options.target.sink!r}, which ends before offset {one.next}.",
                    "Start the query with a new checkpoint location: the sink's data is older than this one. "
                    "(Was the broker restored from a backup?)",
                )
