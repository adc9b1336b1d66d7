"""Offsets of a streaming query, in the form of Spark's checkpoint.

Spark compares offsets as JSON text, so the same place has one spelling: keys in one order, partitions by number.

Spark asks for the initial offset again at each restart until the first batch is in its commit log, and stores it
nowhere. So the end of the first batch says where that batch began: whatever ``latest`` means by then, a batch that is
run again has the rows that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.spark.errors import ForebaySparkError

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Position in each partition of one sink."""

    incarnation: str
    """Incarnation of the sink; a sink that was deleted and recreated has another."""

    partitions: Mapping[int, int]
    """Next offset by partition. A missing partition was added later, and starts at 0."""

    initial: bool = False
    """Start position of the query: no batch has ended here."""

    began: Mapping[int, int] | None = None
    """Start of the batch that ends here; only set where it is not the end of the batch before.

    That is the first batch, and one that begins at a later saved position.
    """

    def at(self, partition: int) -> int:
        """Return the next offset of a partition."""
        return self.partitions.get(partition, 0)

    def json(self) -> Json:
        """Return the canonical JSON form."""
        spelled: Json = {}
        if self.began is not None:
            spelled["began"] = _spelled(self.began)
        spelled["incarnation"] = self.incarnation
        if self.initial:
            spelled["initial"] = True
        spelled["partitions"] = _spelled(self.partitions)
        return spelled


def parsed(found: Mapping[str, object]) -> StreamOffset:
    """Parse an offset of the checkpoint. Raises `ForebaySparkError` for an unknown form."""
    began = found.get("began")
    try:
        return StreamOffset(
            incarnation=_text(found["incarnation"]),
            partitions=_numbers(found["partitions"]),
            initial=found.get("initial") is True,
            began=None if began is None else _numbers(began),
        )
    except (KeyError, TypeError, ValueError):
        raise ForebaySparkError(
            f"The checkpoint holds an offset that is none of format forebay: {dict(found)!r}.",
            "Use a checkpoint location of its own for each query.",
        ) from None


def start_of_batch(start: StreamOffset, end: StreamOffset) -> Mapping[int, int]:
    """Return the start of a batch: Spark's, or the one that is stored with its end."""
    if start.initial and end.initial:  # a first batch without rows
        return end.partitions
    if end.began is None:
        return start.partitions
    if start.initial:
        return end.began
    return {**start.partitions, **{partition: max(at, start.at(partition)) for partition, at in end.began.items()}}


def _spelled(partitions: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): partitions[partition] for partition in sorted(partitions)}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _numbers(value: object) -> dict[int, int]:
    if not isinstance(value, dict) or not all(type(offset) is int and offset >= 0 for offset in value.values()):
        raise TypeError(value)
    return {int(partition): offset for partition, offset in value.items()}
