"""Options of a read, batch or stream, parsed once in the driver.

All values can be pickled. Parsing does not call the broker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.checkpoint import CHECKPOINT_OPTIONS, CheckpointOptions, checkpoint_options
from forebay.spark.options.values import OptionValues
from forebay.spark.options.write import (
    CONNECT_TIMEOUT_S,
    READ_OPTIONS,
    STREAM_CONNECT_TIMEOUT_S,
    WRITE_OPTIONS,
    Rows,
    Target,
    target_options,
)

RECORDS_MAX: Final = 1 << 40
BYTES_MAX: Final = 1 << 50
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_MAX: Final = 253_402_300_799_999
_OF_BATCHES: Final = ("endingOffsets", "endingTimestamp")
_OF_STREAMS: Final = (
    "subscription",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "mode",
    "resend_lease_s",
    "resend_before_due",
    *CHECKPOINT_OPTIONS,
)
_OF_REPLAYS: Final = ("startingOffsets", "timestamps", "startingTimestamp", *CHECKPOINT_OPTIONS)
_OF_RESENDS: Final = ("resend_lease_s", "resend_before_due")
RESEND_LEASE_S: Final = 600.0
RESEND_LEASE_S_MAX: Final = 86_400.0


class Mode(StrEnum):
    """Source of a stream's records."""

    REPLAY = "replay"
    """Stored records of the sink, from a start position on."""

    RESEND = "resend"
    """Retry queue of a subscription: records that its consumers could not process."""


class Bound(StrEnum):
    """End of a partition, resolved when the read is planned."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Timestamps(StrEnum):
    """Time to which ``startingTimestamp`` and ``endingTimestamp`` refer."""

    ACCEPTED = "accepted"
    """Acceptance time: the range starts and ends there, in every partition."""

    EVENT_TIME = "event_time"
    """Event time: the range of offsets is read, and filtered by the records' event times."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Range of event times in microseconds since 1970 UTC, ``[start_us, end_us)``; None is unbounded."""

    start_us: int | None
    end_us: int | None


@dataclass(frozen=True, slots=True)
class Offsets:
    """One end of the range to read, per partition."""

    default: Bound
    """Bound of partitions that are not listed."""

    by_partition: Mapping[int, int | Bound]
    """Offset or bound of the listed partitions."""

    at: datetime | None = None
    """First record accepted at this time or later, in every partition; excludes the other two."""

    def of(self, partition: int) -> int | Bound:
        """Return the offset or bound of a partition."""
        return self.by_partition.get(partition, self.default)


@dataclass(frozen=True, slots=True)
class ResendOptions:
    """Settings of mode ``resend``."""

    subscription: str
    """Subscription whose retry queue is read."""

    lease_s: float
    """Duration of the lease on a micro-batch, from its planning on."""

    before_due: bool
    """Also read records whose nack requested a delay that has not passed."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed options of a read."""

    target: Target
    """Sink to read from."""

    starting: Offsets
    """First offsets."""

    ending: Offsets
    """Offsets after the last. A stream has no end."""

    max_records_per_split: int | None
    """Maximum number of records per Spark task; None is one task per partition of the sink."""

    fail_on_data_loss: bool
    """Fail if records of the range were dropped, instead of skipping them."""

    rows: Rows
    """``AUTO``, ``RECORD`` or ``ARROW``."""

    columns: tuple[str, ...] | None
    """Selected columns of a record or row; None is all."""

    metadata: tuple[str, ...]
    """Selected metadata columns."""

    subscription: str | None
    """Subscription that stores a stream's position in the broker; None uses the checkpoint alone."""

    max_records_per_trigger: int | None
    """Maximum number of records per micro-batch."""

    max_bytes_per_trigger: int | None
    """Approximate maximum of stored bytes per micro-batch."""

    event_times: EventTimes | None
    """Event times to select; None selects all records, including those without event time."""

    resend: ResendOptions | None = None
    """Settings of ``mode`` ``resend``, which has no start position."""

    checkpoint: CheckpointOptions | None = None
    """Store of the position of a stream beside Spark's checkpoint."""


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Parsed options that determine the columns of a read."""

    target: Target
    """Sink to read from."""

    rows: Rows
    """``AUTO``, ``RECORD`` or ``ARROW``."""

    columns: tuple[str, ...] | None
    """Selected columns; None is all."""

    metadata: tuple[str, ...]
    """Selected metadata columns."""


_KAFKA_BOUNDS: Final = {-1: Bound.LATEST, -2: Bound.EARLIEST}
_SAME_IN_KAFKA: Final = {"maxoffsetspertrigger": "maxRecordsPerTrigger"}
"""Equivalent options of Spark's Kafka connector with other names."""


def read_options(given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
    """Parse the options of a read. Raises `ForebaySparkError` for the first invalid one."""
    values = _values(given)
    timestamps = values.choice("timestamps", Timestamps, default=Timestamps.ACCEPTED)
    _refuse_others(values, timestamps, is_stream=is_stream)
    resend = _resend(values)
    return ReadOptions(
        target=target_options(
            values, environment, connect_timeout_s=STREAM_CONNECT_TIMEOUT_S if is_stream else CONNECT_TIMEOUT_S
        ),
        starting=_place(values, timestamps, "startingOffsets", "startingTimestamp", default=Bound.EARLIEST),
        ending=_place(values, timestamps, "endingOffsets", "endingTimestamp", default=Bound.LATEST),
        max_records_per_split=values.whole("max_records_per_split", 1, RECORDS_MAX, default=None),
        fail_on_data_loss=values.flag("failOnDataLoss", default=True),
        rows=values.choice("row_format", Rows, default=Rows.AUTO),
        columns=_names(values.text("columns")),
        metadata=_names(values.text("metadata")) or (),
        subscription=values.text("subscription"),
        max_records_per_trigger=values.whole("maxRecordsPerTrigger", 1, RECORDS_MAX, default=None),
        max_bytes_per_trigger=values.whole("maxBytesPerTrigger", 1, BYTES_MAX, default=None),
        resend=resend,
        checkpoint=checkpoint_options(values, is_stream=is_stream),
        event_times=_event_times(values) if timestamps is Timestamps.EVENT_TIME else None,
    )


def schema_options(given: Mapping[str, str], environment: Mapping[str, str]) -> SchemaOptions:
    """Parse the options that determine the columns; Spark also needs them before a write to a new table."""
    known = tuple(dict.fromkeys((*READ_OPTIONS, *WRITE_OPTIONS)))
    values = OptionValues(given, known, other=(), doing="read")
    return SchemaOptions(
        target=target_options(values, environment, connect_timeout_s=CONNECT_TIMEOUT_S),
        rows=values.choice("row_format", Rows, default=Rows.AUTO),
        columns=_names(values.text("columns")),
        metadata=_names(values.text("metadata")) or (),
    )


def _values(given: Mapping[str, str]) -> OptionValues:
    given = {_SAME_IN_KAFKA.get(name.lower(), name): value for name, value in given.items()}
    return OptionValues(given, READ_OPTIONS, other=WRITE_OPTIONS, doing="read")


def _refuse_others(values: OptionValues, timestamps: Timestamps, *, is_stream: bool) -> None:
    for name in _OF_BATCHES if is_stream else _OF_STREAMS:
        if name == "endingTimestamp" and timestamps is Timestamps.EVENT_TIME:
            continue
        if values.text(name) is not None:
            raise ForebaySparkError(
                f"Option {name} is only for a {'batch' if is_stream else 'stream'}.",
                f"Leave it out, or use spark.{'read' if is_stream else 'readStream'}.",
            )


def _resend(values: OptionValues) -> ResendOptions | None:
    resends = values.choice("mode", Mode, default=Mode.REPLAY) is Mode.RESEND
    for name in _OF_REPLAYS if resends else _OF_RESENDS:
        if values.text(name) is not None:
            raise ForebaySparkError(
                f"Option {name} has no meaning with mode {Mode.RESEND if resends else Mode.REPLAY}.",
                "Leave it out: the whole retry queue is read."
                if resends
                else 'Leave it out, or set .option("mode", "resend").',
            )
    subscription = values.text("subscription")
    if not resends:
        return None
    if subscription is None:
        raise ForebaySparkError(
            "Mode resend reads the retry queue of a subscription, and option subscription is not set.",
            'Set it: .option("subscription", "default").',
        )
    return ResendOptions(
        subscription=subscription,
        lease_s=values.seconds("resend_lease_s", 1.0, RESEND_LEASE_S_MAX, default=RESEND_LEASE_S),
        before_due=values.flag("resend_before_due", default=False),
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _event_times(values: OptionValues) -> EventTimes:
    start, end = (_microseconds(name, values.text(name)) for name in ("startingTimestamp", "endingTimestamp"))
    if start is None and end is None:
        raise ForebaySparkError(
            "Option timestamps is 'event_time', and neither startingTimestamp nor endingTimestamp is set.",
            "Set one of them or both, or leave timestamps out.",
        )
    if start is not None and end is not None and start >= end:
        raise ForebaySparkError(
            f"Option startingTimestamp is {values.text('startingTimestamp')!r}, and endingTimestamp is"
            f" {values.text('endingTimestamp')!r}: the range is empty.",
            "Set endingTimestamp to a later time; the end is excluded.",
        )
    return EventTimes(start, end)


def _microseconds(name: str, text: str | None) -> int | None:
    return None if text is None else (_moment(name, text) - _EPOCH) // timedelta(microseconds=1)


def _place(values: OptionValues, timestamps: Timestamps, offsets: str, timestamp: str, *, default: Bound) -> Offsets:
    text = None if timestamps is Timestamps.EVENT_TIME else values.text(timestamp)
    if text is None:
        return _offsets(values, offsets, default=default)
    if values.text(offsets) is not None:
        raise ForebaySparkError(f"Both {offsets} and {timestamp} are set.", "Set one of them.")
    return Offsets(default, {}, at=_moment(timestamp, text))


def _moment(name: str, text: str) -> datetime:
    """Return a time given as milliseconds since 1970 or ISO 8601; without a zone it is UTC."""
    if text.isdecimal() and int(text) <= _MILLISECONDS_MAX:
        return _EPOCH + timedelta(milliseconds=int(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ForebaySparkError(
            f"Option {name} is {text!r}.",
            "Set it to a time such as 2026-01-31T23:59:59Z, or to milliseconds since 1970.",
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _offsets(values: OptionValues, name: str, *, default: Bound) -> Offsets:
    text = values.text(name)
    if text is None:
        return Offsets(default, {})
    if text.lower() in set(Bound):
        return Offsets(Bound(text.lower()), {})
    wrong = ForebaySparkError(
        f"Option {name} is {text!r}.",
        'Set it to earliest, latest, or offsets by partition such as {"0": 1200, "1": "latest"}.',
    )
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    sink = values.text("sink") or values.text("path")
    if list(parsed) == [sink] and isinstance(parsed[sink], dict):
        parsed = parsed[sink]  # the form of Kafka's connector: {"topic": {"0": 23}}
    by_partition: dict[int, int | Bound] = {}
    for partition, offset in parsed.items():
        if not partition.isdecimal():
            raise wrong
        if isinstance(offset, str) and offset.lower() in set(Bound):
            by_partition[int(partition)] = Bound(offset.lower())
        elif offset in _KAFKA_BOUNDS and isinstance(offset, int):
            by_partition[int(partition)] = _KAFKA_BOUNDS[offset]
        elif isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
            by_partition[int(partition)] = offset
        else:
            raise wrong
    return Offsets(default, by_partition)
