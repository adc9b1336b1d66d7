"""Registration of the schema of a write's rows, in the driver, before a task starts.

A stream's writer is created for every micro-batch. Results are cached for the life of the process, so that a running
query does not call the broker each time and continues during an outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from forebay.arrow import RowsUnreadable, decode_rows, encode_batches, encode_schema
from forebay.client import Client, errors
from forebay.spark.arrow_types import arrow_schema
from forebay.spark.broker import FRESH_S, REFRESH_S, connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, Target, WriteOptions
from forebay.spark.remedies import explained
from forebay.spark.row_schema import USUAL, MergeRules, check_rows, grown, nullable_schema, parse
from forebay.spark.write.record_schema import RowPlan

TRIES: Final = 10
"""Maximum number of attempts to register while other clients register versions first."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The schema that pages of a write name. Is pickled."""

    version: int
    arrow_schema: bytes


def register(
    target: Target, rows: StructType, *, patience_s: float, rules: MergeRules = USUAL, incarnation: str = ""
) -> RowSchema:
    """Return the version of the sink's schema that holds these rows, registering it if need be.

    With an ``incarnation`` it is a version of that sink, and of no other one of its name.
    Raises `ForebaySparkError` where the rows do not fit, and `ForebayError`.
    """
    check_rows(rows, case_sensitive=rules.case_sensitive)
    with connect(target, patience_s=patience_s) as client:
        for _ in range(TRIES):
            try:
                return _settled(client, target.sink, rows, rules, incarnation)
            except errors.SchemaChanged:
                continue
    raise ForebaySparkError(
        f"Others keep registering schemas for sink {target.sink!r}.", "Run this again when they have started."
    )


def _settled(client: Client, sink: str, rows: StructType, rules: MergeRules, incarnation: str) -> RowSchema:
    version, latest = client.schemas.latest(sink, incarnation=incarnation)
    wanted = nullable_schema(rows)
    if latest is None and client.sinks.stats(sink).records:
        raise ForebaySparkError(
            f"Sink {sink!r} holds records, and these are rows with a schema: no reader takes both.",
            'Write to another sink, or write whole rows as JSON records with .option("row_format", "json").',
        )
    if latest is not None:
        known = parse(latest.spark_schema)
        if known is None:
            raise ForebaySparkError(
                f"The schema of sink {sink!r} was registered by another program than Spark.",
                'Write to another sink, or write whole rows as JSON with .option("row_format", "json").',
            )
        wanted = grown(known, rows, sink=sink, version=latest.version, rules=rules)
        if wanted == known:
            return RowSchema(latest.version, latest.arrow_schema)
    encoded = _encoded(wanted)
    made = client.schemas.register(sink, encoded, previous=version, spark_schema=wanted.json(), incarnation=incarnation)
    return RowSchema(made, encoded)


def _encoded(wanted: StructType) -> bytes:
    """Return the schema message. Raises `ForebaySparkError` for a schema whose pages no reader would take."""
    schema = arrow_schema(wanted)
    message = encode_schema(schema)
    row = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    try:
        decode_rows(message, encode_batches([row]), 1)
    except (RowsUnreadable, pa.ArrowInvalid) as unreadable:
        raise ForebaySparkError(
            f"The rows have a schema that no reader would take: {unreadable}.",
            'Nest columns less deeply, or write whole rows as JSON with .option("row_format", "json").',
        ) from unreadable
    return message


@dataclass(frozen=True, slots=True)
class _Known:
    schema: RowSchema
    at_s: float


class SchemaDirectory:
    """Remembers settled schemas for the life of one process. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._known: dict[tuple[Target, str, str, MergeRules], _Known] = {}

    def register(
        self, target: Target, rows: StructType, rules: MergeRules = USUAL, *, incarnation: str = ""
    ) -> RowSchema:
        """As `register`, but what was settled before for the same sink holds while the broker is away.

        Raises `ForebaySparkError`.
        """
        place = (target, incarnation, rows.json(), rules)
        known = self._known.get(place)
        if known is not None and self._clock() - known.at_s < FRESH_S:
            return known.schema
        patience_s = target.connect_timeout_s if known is None else REFRESH_S
        try:
            schema = register(target, rows, patience_s=patience_s, rules=rules, incarnation=incarnation)
        except errors.BrokerUnavailable as error:
            if known is None:
                raise explained(error, target, doing="ask for the schema of") from error
            return known.schema
        except errors.ForebayError as error:
            self._known.pop(place, None)
            raise explained(error, target, doing="ask for the schema of") from error
        self._known[place] = _Known(schema, self._clock())
        return schema


SCHEMAS_SETTLED: Final = SchemaDirectory(time.monotonic)
"""Schemas that the writes of this process have registered."""


class RecordDirectory:
    """Remembers the sinks that take records, for the life of one process. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._checked: dict[tuple[Target, str], float] = {}

    def check(self, target: Target, incarnation: str) -> None:
        """Raise `ForebaySparkError` for a sink of rows; what was found before holds while the broker is away."""
        place = (target, incarnation)
        at_s = self._checked.get(place)
        if at_s is not None and self._clock() - at_s < FRESH_S:
            return
        try:
            with connect(target, patience_s=target.connect_timeout_s if at_s is None else REFRESH_S) as client:
                _, latest = client.schemas.latest(target.sink, incarnation=incarnation)
        except errors.BrokerUnavailable as error:
            if at_s is None:
                raise explained(error, target, doing="ask for the schema of") from error
            return
        except errors.ForebayError as error:
            raise explained(error, target, doing="ask for the schema of") from error
        if latest is not None:
            raise ForebaySparkError(
                f"Sink {target.sink!r} holds rows with a schema, and these are records: no reader takes both.",
                'Write to another sink, or write rows with their schema with .option("row_format", "arrow").',
            )
        self._checked[place] = self._clock()


RECORDS_SETTLED: Final = RecordDirectory(time.monotonic)
"""Sinks that the writes of this process have sent records to."""


def schema_of_write(options: WriteOptions, plan: RowPlan, rows: StructType, incarnation: str) -> RowSchema | None:
    """Return the registered schema of a write's rows, None for rows without a schema of their own.

    Raises `ForebaySparkError` for rows that do not fit, before anything is written.
    """
    if plan.kind is not Rows.ARROW:
        RECORDS_SETTLED.check(options.target, incarnation)
        return None
    rules = MergeRules(options.merge_schema, options.type_widening, options.case_sensitive)
    return SCHEMAS_SETTLED.register(options.target, rows, rules, incarnation=incarnation)
