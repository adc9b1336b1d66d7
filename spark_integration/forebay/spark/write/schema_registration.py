"""Registration of the schema of a write's rows, in the driver, before a task starts.

Results are cached for the life of the process (``cache``), because Spark creates a new writer for every micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from forebay.arrow import RowsUnreadable, decode_rows, encode_batches, encode_schema
from forebay.client import Client, DropReason, PartitionStats, SinkStats, errors
from forebay.spark.connection.broker import connect
from forebay.spark.connection.cache import BrokerCache
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, Target, WriteOptions
from forebay.spark.schema.arrow_types import arrow_schema
from forebay.spark.schema.row_schema import USUAL, MergeRules, check_rows, merged_schema, nullable_schema, parse
from forebay.spark.write.record_schema import RECORD_COLUMNS, RowPlan

TRIES: Final = 10
"""Maximum number of attempts to register while other clients register versions first."""
_DOING: Final = "ask for the schema of"


@dataclass(frozen=True, slots=True)
class RowSchema:
    """Schema that the pages of a write refer to. Pickled."""

    version: int
    arrow_schema: bytes


def register(
    target: Target, rows: StructType, *, patience_s: float, rules: MergeRules = USUAL, incarnation: str = ""
) -> RowSchema:
    """Return the version of the sink's schema that represents these rows; register it if necessary.

    With an ``incarnation``, any other sink of that name is an error. Raises `ForebaySparkError` for rows that do not
    match the schema, and `ForebayError`.
    """
    check_rows(rows, case_sensitive=rules.case_sensitive)
    with connect(target, patience_s=patience_s) as client:
        for _ in range(TRIES):
            try:
                return _settled(client, target.sink, rows, rules, incarnation)
            except errors.SchemaChanged:
                continue
    raise ForebaySparkError(
        f"Other clients keep registering schemas for sink {target.sink!r}.", "Run this again when they have started."
    )


def _settled(client: Client, sink: str, rows: StructType, rules: MergeRules, incarnation: str) -> RowSchema:
    version, latest = client.schemas.latest(sink, incarnation=incarnation)
    wanted = nullable_schema(rows)
    if latest is None:
        check_takes_rows(client.sinks.stats(sink), sink, version)
    if latest is not None:
        known = parse(latest.spark_schema)
        if known is None:
            raise ForebaySparkError(
                f"The schema of sink {sink!r} was registered by another program than Spark.",
                'Write to another sink, or write whole rows as JSON with .option("row_format", "json").',
            )
        wanted = merged_schema(known, rows, sink=sink, version=latest.version, rules=rules)
        if wanted == known:
            return RowSchema(latest.version, latest.arrow_schema)
    encoded = _encoded(wanted)
    made = client.schemas.register(sink, encoded, previous=version, spark_schema=wanted.json(), incarnation=incarnation)
    return RowSchema(made, encoded)


def _moved(part: PartitionStats) -> int:
    """Return the offsets that a restore or a crash has skipped: no record had them."""
    return part.dropped.get(DropReason.RESTORED, 0) + part.dropped.get(DropReason.LOST_IN_CRASH, 0)


def check_takes_rows(found: SinkStats, sink: str, version: int) -> None:
    """Raise `ForebaySparkError` for a sink of records, also while it is empty.

    The sink of a stream is empty whenever its target has caught up, and a schema cannot be deleted. A sink that lost
    its schemas, up to ``version``, was one of rows.
    """
    if found.records:
        problem = "holds records"
    elif found.staged_records:
        problem = "holds records of a write that is not committed yet"
    elif version == 0 and any(part.next_offset > _moved(part) for part in found.partitions):
        problem = "has held records, which are settled or removed"
    else:
        return
    raise ForebaySparkError(
        f"Sink {sink!r} {problem}, and these are rows with a schema: no reader accepts both.",
        'Write to another sink, or write whole rows as JSON records with .option("row_format", "json"). To write '
        f"records, select {', '.join(RECORD_COLUMNS)}, or only value. If this sink is to hold rows from now on, let "
        f"its target catch up, delete it (forebay sink delete {sink}) and create it again.",
    )


def _encoded(wanted: StructType) -> bytes:
    """Return the schema message. Raises `ForebaySparkError` if no reader would accept its pages."""
    schema = arrow_schema(wanted)
    message = encode_schema(schema)
    row = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    try:
        decode_rows(message, encode_batches([row]), 1)
    except (RowsUnreadable, pa.ArrowInvalid) as unreadable:
        raise ForebaySparkError(
            f"The rows have a schema that no reader accepts: {unreadable}.",
            'Nest columns less deeply, or write whole rows as JSON with .option("row_format", "json").',
        ) from unreadable
    return message


class SchemaCache:
    """Schemas that the writes of a process have registered. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._schemas: BrokerCache[tuple[Target, str, str, MergeRules], RowSchema] = BrokerCache(clock)

    def register(
        self, target: Target, rows: StructType, rules: MergeRules = USUAL, *, incarnation: str = ""
    ) -> RowSchema:
        """Register as `register`; uses the cached version of the same sink while its broker is unavailable.

        Raises `ForebaySparkError`.
        """
        return self._schemas.get(
            (target, incarnation, rows.json(), rules),
            target,
            lambda patience_s: register(target, rows, patience_s=patience_s, rules=rules, incarnation=incarnation),
            doing=_DOING,
        )


class RecordSinkCache:
    """Sinks of records, to which a process has written records. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._checked: BrokerCache[tuple[Target, str], None] = BrokerCache(clock)

    def check(self, target: Target, incarnation: str) -> None:
        """Raise `ForebaySparkError` for a sink of rows; the cached result holds during an outage."""
        self._checked.get(
            (target, incarnation),
            target,
            lambda patience_s: _check_takes_records(target, incarnation, patience_s),
            doing=_DOING,
        )


def check_takes_records(client: Client, target: Target, incarnation: str) -> None:
    """Raise `ForebaySparkError` for a sink of rows, whose readers accept no record; raises `ForebayError`."""
    _, latest = client.schemas.latest(target.sink, incarnation=incarnation)
    if latest is not None:
        raise ForebaySparkError(
            f"Sink {target.sink!r} holds rows with a schema, and these are records: no reader accepts both.",
            'Write to another sink, or write rows with their schema with .option("row_format", "arrow"). If its schema '
            f"was registered by mistake, delete the sink (forebay sink delete {target.sink}) and create it again.",
        )


def _check_takes_records(target: Target, incarnation: str, patience_s: float) -> None:
    with connect(target, patience_s=patience_s) as client:
        check_takes_records(client, target, incarnation)


SCHEMAS: Final = SchemaCache(time.monotonic)
RECORD_SINKS: Final = RecordSinkCache(time.monotonic)


def schema_of_write(options: WriteOptions, plan: RowPlan, rows: StructType, incarnation: str) -> RowSchema | None:
    """Return the registered schema of a write's rows, None for rows without a schema of their own.

    Raises `ForebaySparkError` for rows that do not fit, before anything is written.
    """
    if plan.kind is not Rows.ARROW:
        RECORD_SINKS.check(options.target, incarnation)
        return None
    rules = MergeRules(options.merge_schema, options.type_widening, options.case_sensitive)
    return SCHEMAS.register(options.target, rows, rules, incarnation=incarnation)
