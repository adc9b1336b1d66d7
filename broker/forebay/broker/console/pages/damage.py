"""Damage: quarantined pages, gaps in the records, and the state of the backups."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource, as_json
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.backup_service import BackupServicer
from forebay.broker.rpc.sinks import questions
from forebay.broker.runtime.resources.slices import Slices
from forebay.v1 import backup_service_pb2, record_pb2, sink_service_pb2

GAPS: Final = 200
"""Gaps on the page: the newest."""

OF_A_SINK: Final = 1_000
"""Gaps of a sink that are read."""

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
        return sum(one.records for one in self.gap.counts) or self.gap.last_offset - self.gap.first_offset + 1

    @property
    def reason(self) -> str:
        """Reason, as in the proto without the prefix."""
        return record_pb2.DropReason.Name(self.gap.reason).removeprefix("DROP_REASON_")


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
    broker, slices, gaps = source.broker, Slices(), list[SinkGap]()
    visible = {one.name for one in await source.visible(request)}
    numbers = {buffer.state.id: name for name, buffer in broker.sinks.items() if name in visible}
    for name in sorted(visible & broker.sinks.keys()):
        await slices.turn()
        asked = sink_service_pb2.ListGapsRequest(sink=name, page_size=OF_A_SINK)
        try:
            found = await questions.gaps_response(broker.sinks[name], asked)
        except (BrokerError, KeyError):  # it was deleted meanwhile
            continue
        gaps += [SinkGap(name, gap) for gap in found.gaps]
    gaps.sort(key=lambda one: -one.gap.at.ToMicroseconds())
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
        "quarantine": [
            {"sink": one.sink, "partition": one.partition, "first_offset": one.first_offset}
            | {"last_offset": one.last_offset, "bytes": one.bytes}
            for one in pages
        ],
        "gaps": [{"sink": one.sink, **as_json(one.gap)} for one in gaps[:GAPS]],
        "gaps_total": len(gaps),
        "backups": as_json(backups),
        "last_verify": None if check is None else {**asdict(check), "is_clean": check.is_clean},
    }
    shown = {
        "quarantine": broker.quarantine,
        "pages": pages,
        "gaps": gaps[:GAPS],
        "gaps_total": len(gaps),
        "backups": backups,
        "check": check,
        "check_age_s": None if check is None else max(0.0, (broker.clock.wall_us() - check.at_us) / 1e6),
        "age_s": broker.backups.age_s(),
        "warnings": broker.backups.warnings(),
    }
    return Page("damage.html", "Damage", data, "forebay info", "/damage", shown=shown)
