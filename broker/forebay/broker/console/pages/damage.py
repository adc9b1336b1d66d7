"""Damage: quarantined pages, gaps in the records, and the state of the backups."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from typing import Any, Final

from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource, as_json
from forebay.broker.core.partition.pages import Gap
from forebay.broker.rpc import convert
from forebay.broker.rpc.backup_service import BackupServicer
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.v1 import backup_service_pb2, record_pb2

GAPS: Final = 200
"""Gaps on the page: the newest."""

EXAMINED_MAX: Final = 100_000
"""Gaps of all sinks that are examined."""

COMMANDS: Final = 5
"""Sinks whose gaps a command lists: those with the newest."""

PAGES: Final = 100
"""Quarantined pages on the page: the newest."""


@dataclass(frozen=True, slots=True)
class SinkGap:
    """One gap, and its sink."""

    sink: str
    gap: record_pb2.Gap

    @property
    def records(self) -> int:
        """Number of records that were dropped."""
        return sum(one.records for one in self.gap.counts)

    @property
    def reason(self) -> str:
        """Reason, as in the proto without the prefix."""
        return record_pb2.DropReason.Name(self.gap.reason).removeprefix("DROP_REASON_")


@dataclass(frozen=True, slots=True)
class GapList:
    """Newest gaps of some sinks."""

    gaps: tuple[SinkGap, ...]
    """The newest first."""

    total: int
    """Number of gaps that were examined."""

    more: bool
    """True if there are further gaps, which may be newer."""


@dataclass(frozen=True, slots=True)
class QuarantinedPage:
    """Page with damaged content, whose bytes are kept."""

    sink: str
    partition: int
    first_offset: int
    last_offset: int
    bytes: int


async def damage(source: PageSource, request: Request) -> Page:
    """Return quarantine, gaps and backups of the sinks that a principal may see."""
    broker = source.broker
    visible = {one.name for one in await source.visible(request)}
    numbers = {buffer.state.id: name for name, buffer in broker.sinks.items() if name in visible}
    gaps = await newest_gaps([broker.sinks[name] for name in sorted(visible & broker.sinks.keys())])
    pages = [
        QuarantinedPage(numbers[one.sink], one.partition, one.entry.base, one.entry.end - 1, one.entry.size)
        for one in broker.quarantine
        if one.sink in numbers
    ][-PAGES:]
    backups = await BackupServicer(broker).GetBackupStatus(backup_service_pb2.GetBackupStatusRequest(), None)
    check = source.last_check
    data: dict[str, Any] = {
        "quarantined_pages": broker.quarantine.pages,
        "quarantined_bytes": broker.quarantine.size,
        "quarantine_evicted": broker.quarantine.evicted,
        "quarantine": pages,
        "gaps": [{"sink": one.sink, "records": one.records, **as_json(one.gap)} for one in gaps.gaps],
        "gaps_total": gaps.total,
        "gaps_more": gaps.more,
        "backups": backups,
        "backup_age_s": broker.backups.age_s(),
        "backup_warnings": broker.backups.warnings(),
        "last_verify": check,
        "last_verify_age_s": None if check is None else max(0.0, (broker.clock.wall_us() - check.at_us) / 1e6),
    }
    sinks = list(dict.fromkeys(one.sink for one in gaps.gaps))[:COMMANDS]
    target = (f"forebay backup list --target {shlex.quote(backups.target)}",) if backups.target else ()
    return Page(
        "damage.html",
        "Damage",
        data,
        "forebay info",
        "/damage",
        shown={**data, "gaps": gaps.gaps},
        further=tuple(f"forebay gaps {name}" for name in sinks),
        offline=("forebay quarantine list --data-dir …", "forebay verify --data-dir …", *target),
    )


async def newest_gaps(buffers: Sequence[Buffer], *, number: int = GAPS, examined_max: int = EXAMINED_MAX) -> GapList:
    """Return the newest gaps of sinks by the time of their last drop, and how many there are."""
    slices, newest, total = Slices(), list[tuple[str, int, Gap]](), 0
    for buffer in buffers:
        for log in buffer.logs:
            await slices.turn()
            found = [*log.gaps, *log.rejections.all()]
            over = max(0, total + len(found) - examined_max)
            total += len(found) - over
            candidates = ((buffer.name, log.number, gap) for gap in found[over:])
            newest = nlargest(number, chain(newest, candidates), key=lambda one: one[2].at_us)
            if over:
                return _listed(newest, total, more=True)
    return _listed(newest, total, more=False)


def _listed(newest: Sequence[tuple[str, int, Gap]], total: int, *, more: bool) -> GapList:
    return GapList(tuple(SinkGap(sink, convert.gap(partition, gap)) for sink, partition, gap in newest), total, more)
