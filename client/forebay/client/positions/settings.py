"""Settings of a consumer with saved positions, and the tables of their allowed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Final, TypedDict

from forebay.client.positions import schedule
from forebay.client.positions.position import NAME, NAME_FORM
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


CHOICES: Final[Mapping[str, type[StrEnum]]] = {"guarantee": Guarantee, "on_misfit": OnMisfit}
"""Allowed words by setting."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **schedule.RANGES,
    "rw_timeout_s": (0.1, 3600),
    "save_failures_max": (0, 1_000_000_000),
    "stop_timeout_s": (0, 3600),
    "buffer_bytes": (1 << 20, 1 << 40),
    "refresh_s": (0.1, 86_400),
}
"""Lowest and highest value by setting."""

OFFSETS: Final = 1 << 63
"""Number of offsets that there can be."""

SUBSCRIPTION: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Form of a subscription's name in the broker."""

FORMS: Final[Mapping[str, str]] = {
    "start": "None, 'earliest', 'latest', an offset from 0, offsets by partition, or a time",
    "subscription": "'' or 1 to 64 of [A-Za-z0-9._-]",
    "namespace": NAME_FORM,
}
"""Allowed values of the other settings that are no booleans."""


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
    """Bytes of memory for pages that are read ahead, over all partitions.

    Each partition may hold one page beside. A page counts its bytes, and 256 for itself and for each of the appends
    that it holds; a gap counts 512.
    """

    refresh_s: float = 30.0
    """Seconds between two looks for partitions that were added to the sink."""

    def __post_init__(self) -> None:
        """Reject values that are not allowed."""
        for setting in fields(self):
            if setting.type == "bool" and not isinstance(getattr(self, setting.name), bool):
                raise invalid_setting(setting.name, repr(getattr(self, setting.name)), "True or False")
        for name, words in CHOICES.items():
            if getattr(self, name) not in [word.value for word in words]:
                raise invalid_setting(name, getattr(self, name), " or ".join(word.value for word in words))
        for name, (lowest, highest) in RANGES.items():
            if getattr(self, name) is not None:
                check(name, getattr(self, name), lowest, highest)
        for name, is_allowed in (
            ("start", _is_position(self.start)),
            ("subscription", not self.subscription or SUBSCRIPTION.fullmatch(self.subscription) is not None),
            ("namespace", NAME.fullmatch(self.namespace) is not None),
        ):
            if not is_allowed:
                raise invalid_setting(name, repr(getattr(self, name)), FORMS[name])

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


def _is_position(start: object) -> bool:
    """Return whether a value is a start point."""
    match start:
        case None | "earliest" | "latest" | datetime():
            return True
        case Mapping():
            return all(_is_offset(number) for item in start.items() for number in item)
        case _:
            return _is_offset(start)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < OFFSETS
