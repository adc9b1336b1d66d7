"""Settings of a consumer with saved positions, with their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.start import OnMisfit
from forebay.client.settings import check, invalid_setting
from forebay.client.values.subscriptions import Position


class Guarantee(StrEnum):
    """Guarantee of a consumer over restarts; it decides when a position is saved."""

    AT_LEAST_ONCE = "at_least_once"
    """The position is saved after the records are finished.

    Some may be processed twice, none is skipped.
    """

    AT_MOST_ONCE = "at_most_once"
    """The position is saved before the records are handed out.

    Some may be skipped, none is processed twice.
    """


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of a consumer."""

    guarantee: str = "at_least_once"
    """``at_least_once`` or ``at_most_once``."""

    start: Position | None = None
    """Start where nothing is saved; None is ``earliest``."""

    subscription: str = ""
    """Subscription to read: where nothing is saved, ``earliest`` is its lowest unsettled record.

    The records are read by replay: nothing else should consume the subscription.
    """

    settle: bool = True
    """Settle the records of the subscription below each saved position, after the save."""

    checkpointing: bool = True
    """Save positions, and start at them. Without, every start is at ``start``, and nothing is saved."""

    on_misfit: str = "error"
    """Policy for a position that does not fit the sink: ``error``, ``earliest`` or ``latest``.

    A saved position or a start offset that was trimmed or is ahead of the end, or a saved position of a deleted sink of
    the same name.
    """

    namespace: str = "default"
    """Namespace of the positions: consumers of one name in two namespaces are independent."""

    frequency_s: float = 5.0
    """Seconds between two saves of a partition; 0 saves as soon as a threshold is reached."""

    count_threshold: int = 1
    """Finished records that make a save due."""

    time_threshold_s: float = 30.0
    """Seconds after which a save is due for fewer records."""

    rw_timeout_s: float = 10.0
    """Time limit of one read or write of the store."""

    save_failures_max: int | None = None
    """Failed saves in a row that stop the consumer; None retries without end, with increasing delays."""

    stop_timeout_s: float = 30.0
    """Time limit of the last save, when the consumer is closed."""

    auto_finish: bool = True
    """Finish a batch when the next one is requested.

    Without, the program calls ``Batch.finish``, in any order.
    """

    follow: bool = True
    """Wait for new records at the end.

    Without, the iteration stops at the ends that the partitions had when it started.
    """

    buffer_bytes: int = 64 << 20
    """Bytes of pages that are read ahead, over all partitions; each partition may hold one page beside."""

    refresh_s: float = 30.0
    """Seconds between two looks for partitions that were added to the sink."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
        _check_word("guarantee", self.guarantee, Guarantee)
        _check_word("on_misfit", self.on_misfit, OnMisfit)
        check("rw_timeout_s", self.rw_timeout_s, 0.1, 3600)
        check("stop_timeout_s", self.stop_timeout_s, 0, 3600)
        check("buffer_bytes", self.buffer_bytes, 1 << 20, 1 << 40)
        check("refresh_s", self.refresh_s, 0.1, 86_400)
        if self.save_failures_max is not None:
            check("save_failures_max", self.save_failures_max, 0, 1_000_000_000)
        _ = self.schedule  # checks its three settings

    @property
    def schedule(self) -> SaveSchedule:
        """Schedule of saves."""
        return SaveSchedule(self.frequency_s, self.count_threshold, self.time_threshold_s)


class ConsumerOptions(TypedDict, total=False):
    """Fields of ``ConsumerSettings`` as keywords."""

    guarantee: str
    start: Position | None
    subscription: str
    settle: bool
    checkpointing: bool
    on_misfit: str
    namespace: str
    frequency_s: float
    count_threshold: int
    time_threshold_s: float
    rw_timeout_s: float
    save_failures_max: int | None
    stop_timeout_s: float
    auto_finish: bool
    follow: bool
    buffer_bytes: int
    refresh_s: float


def _check_word(name: str, value: str, words: type[StrEnum]) -> None:
    allowed = [word.value for word in words]
    if value not in allowed:
        raise invalid_setting(name, value, " or ".join(allowed))
