"""Memory use of the process and its control group, and the guard of the high watermark.

The figures of the system are used, not a sum of the broker's own counts. Memory that the system can reclaim at once
(the page cache) does not count. Above the high watermark the broker holds less: see ``MemoryGuard``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from forebay.broker.core.errors import MemoryOverloaded

_log: Final = logging.getLogger(__name__)
NO_LIMIT: Final = 1 << 60
"""A version 1 control group without a limit reports more than this."""
BELOW: Final = 0.95
"""Fraction of the watermark below which the use must fall to end the overload: a hysteresis."""
SHARE: Final = 16
"""Divisor of the bytes that may wait for their sync during an overload."""

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

Read = Callable[[str], str | None]
"""Reader of a system file: its text, or None if it does not exist."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory use and its limit, in bytes."""

    what: str
    """``process`` or ``cgroup``."""

    used: int
    limit: int


def read_file(path: str) -> str | None:
    """Return the text of a file, or None if it cannot be read."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None


def resident_bytes(read: Read = read_file) -> int:
    """Return the resident memory of the process, from one short file; 0 if the system has no figure."""
    pages = (read("/proc/self/statm") or "").split()
    return int(pages[1]) * PAGE_BYTES if len(pages) > 1 else 0


def measure(read: Read = read_file) -> list[Reading]:
    """Return the memory use of the process and its control group; empty if the system has no figures."""
    readings: list[Reading] = []
    total = _fields(read("/proc/meminfo")).get("MemTotal", 0)
    mine = _fields(read("/proc/self/status"))
    if total and "RssAnon" in mine:
        readings.append(Reading("process", mine["RssAnon"] + mine.get("RssShmem", 0), total))
    for directory, names in _groups(read("/proc/self/cgroup") or ""):
        limit = _number(read(f"{directory}/{names.limit}"))
        used = _number(read(f"{directory}/{names.used}"))
        if limit is None or used is None or limit >= NO_LIMIT:
            continue
        parts = _fields(read(f"{directory}/memory.stat"))
        cache = sum(parts.get(f"{names.prefix}{name}", 0) for name in ("active_file", "inactive_file"))
        readings.append(Reading("cgroup", max(0, used - cache), min(limit, total or limit)))
    return readings


@dataclass(frozen=True, slots=True)
class _Names:
    limit: str
    used: str
    prefix: str
    """Prefix of the fields of ``memory.stat`` that include the groups below."""


_FIRST: Final = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
_SECOND: Final = _Names("memory.max", "memory.current", "")


def _groups(text: str) -> Iterator[tuple[str, _Names]]:
    """Yield the folders of the process's control group and of its parents: any may have a limit.

    Within a container the path may be the host's, and the group's own files are at the top.
    """
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if "memory" in kinds.split(","):
            root, names = "/sys/fs/cgroup/memory", _FIRST
        elif number == "0" and not kinds:
            root, names = "/sys/fs/cgroup", _SECOND
        else:
            continue
        place = PurePosixPath(path)
        for above in (place, *place.parents):
            yield f"{root}{above}".rstrip("/"), names


def _fields(text: str | None) -> dict[str, int]:
    """Return ``Name: 12 kB`` and ``name 12`` as bytes by name."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1]) * (1024 if words[2:] == ["kB"] else 1)
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


class MemoryGuard:
    """Guard of the high watermark, and of appends above it. Used on the loop only."""

    def __init__(
        self,
        measure: Callable[[], Sequence[Reading]] = list,
        *,
        high_watermark: float = 1.0,
        waiting_bytes_max: int = 0,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """``high_watermark`` is a fraction of the limit; ``on_change`` is called at every crossing of it."""
        self.overloaded = False
        """True above the high watermark: components hold less where they can."""
        self.worst: Reading | None = None
        """Last reading that is nearest to its limit; None if the system has no figures."""
        self._measure = measure
        self._high_watermark = high_watermark
        self._waiting_bytes_max = max(1, waiting_bytes_max // SHARE)
        self._on_change = on_change

    def check(self) -> None:
        """Measure the use, once a second."""
        readings = self._measure()
        self.worst = worst = max(readings, key=lambda each: each.used / each.limit, default=None)
        if worst is None:
            return
        mark = worst.limit * self._high_watermark * (BELOW if self.overloaded else 1.0)
        overloaded = worst.used > mark
        if overloaded == self.overloaded:
            return
        self.overloaded = overloaded
        log = _log.warning if overloaded else _log.info
        change = "was exceeded" if overloaded else "is no longer exceeded"
        log("the high watermark of memory %s by=%s used=%d limit=%d", change, worst.what, worst.used, worst.limit)
        self._on_change(overloaded)

    def admit(self, waiting: int, size: int) -> None:
        """Raise ``MemoryOverloaded`` unless ``size`` more bytes may wait beside ``waiting``."""
        if self.overloaded and waiting and waiting + size > self._waiting_bytes_max:
            raise MemoryOverloaded(waiting, self._waiting_bytes_max)
