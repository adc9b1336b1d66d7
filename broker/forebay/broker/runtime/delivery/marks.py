"""Delivery marks: offset per lane below which records may have been delivered. They survive a kill.

A cursor has the same offset, but is written with acks and failures only: records delivered and not answered would seem
new after a kill. So each delivery is noted before it is sent, in a mapped file of counts (see
``storage.records.accepted``), without a system call. An orderly stop writes the cursors instead. After any other end
(power loss, a missing file, too many lanes) the deliveries are unknown: then every stored unsettled record may have
been delivered. Used on the loop only.

    one count: 1 where the marks are incomplete; then per lane three: its name as two counts, and the offset

A lane's name is a hash of sink, subscription, creation time and partition, so that nothing else has to be stored.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from forebay.broker.runtime.commit.accepted import Accepted

LANES_MAX: Final = 1 << 18
"""Lanes that deliver in one run of the broker; beyond them the marks are incomplete.

Their file is 6 MiB then.
"""
_INCOMPLETE: Final = 0
_FIRST: Final = 1
_WIDTH: Final = 3
_NAME: Final = struct.Struct(">QQ")

LaneName = tuple[int, int]


def lane_name(sink: int, subscription: str, made_at_us: int, partition: int) -> LaneName:
    """Return the name of one subscription on one partition; a recreated subscription has another."""
    text = f"{sink}/{made_at_us}/{partition}/{subscription}"
    high, low = _NAME.unpack(hashlib.blake2b(text.encode(), digest_size=_NAME.size).digest())
    return high, low


class DeliveryMarks:
    """Marks of this run of the broker, and those of the run before."""

    def __init__(self, counts: Accepted, *, stopped: bool, damaged: bool) -> None:
        """``stopped``: the run before stopped in order, so that the cursors hold what its marks held.

        ``damaged``: a stored value was damaged, so that neither cursors nor marks are reliable.
        """
        self._counts = counts
        self._found: Mapping[LaneName, int] | None = {} if stopped else _read(counts.found)
        if damaged:
            self._found = None
        self._places: dict[LaneName, int] = {}
        self._free: list[int] = []
        self._next = _FIRST

    @property
    def known(self) -> bool:
        """True if the deliveries of the run before are known."""
        return self._found is not None

    def delivered(self, lane: LaneName, end: int) -> int:
        """Return the offset, at most ``end``, below which the run before may have delivered from a lane."""
        return end if self._found is None else min(self._found.get(lane, 0), end)

    @property
    def none_found(self) -> bool:
        """True if there is no mark to take over: the cursors are complete."""
        return self._found is not None and not self._found

    def begin(self) -> None:
        """Start with no marks, after those that were found are stored."""
        self._found = {}
        self._counts.begin()

    def note(self, lane: LaneName, end: int) -> None:
        """Note that a lane delivers records below ``end``: called before they are sent."""
        place = self._places.get(lane)
        if place is None:
            place = self._open(lane)
        if place is not None:
            self._counts.note(place + 2, end)

    def remove(self, lanes: Iterable[LaneName]) -> None:
        """Remove lanes that are durably deleted."""
        for lane in lanes:
            place = self._places.pop(lane, None)
            if place is not None:
                for count in (place + 2, place + 1, place):  # the offset first: a name without one has no meaning
                    self._counts.note(count, 0)
                self._free.append(place)

    def close(self) -> None:
        """Close the file."""
        self._counts.close()

    def _open(self, lane: LaneName) -> int | None:
        place = self._free.pop() if self._free else self._next
        if len(self._places) >= LANES_MAX or not self._counts.has_room(place + _WIDTH - 1):
            self._counts.note(_INCOMPLETE, 1)
            return None
        self._next = max(self._next, place + _WIDTH)
        self._places[lane] = place
        self._counts.note(place, lane[0])
        self._counts.note(place + 1, lane[1])
        return place


def _read(counts: tuple[int, ...] | None) -> dict[LaneName, int] | None:
    """Return the marks that a killed run left, by lane; None if they are unknown or incomplete."""
    if counts is None or not counts or counts[_INCOMPLETE]:
        return None
    places = range(_FIRST, len(counts) - _WIDTH + 1, _WIDTH)
    return {(counts[at], counts[at + 1]): counts[at + 2] for at in places if counts[at + 2]}
