"""Result of a campaign over a fleet: a row for each kind of fault, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Final

from tests.support.campaigns.report import Report

COLUMNS: Final = (
    "fault",
    "faults",
    "takeovers",
    "receipts",
    "lost",
    "doubled",
    "after a fence",
    "other",
    "takeover s p50",
    "p99",
)
END: Final = "comparison at the end"


@dataclass(slots=True)
class Row:
    """Figures of one kind of fault."""

    faults: int = 0
    takeovers: int = 0
    """Brokers that began to serve from the fault until the next one."""

    receipts: int = 0
    """Records that got a receipt from the fault until the next one."""

    lost: int = 0
    doubled: int = 0
    after_fence: int = 0
    other: int = 0
    """Violations of other kinds: see ``Report``."""

    beyond_s: list[float] = field(default_factory=list)
    """Seconds until the next owner served, without ``takeover_after_s``, of each takeover by a warm follower."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The figures."""

    engine: str
    rows: Mapping[str, Row]
    epochs: int
    """Epochs that were answered as committed, each in two sinks."""

    answered_late: int
    """Receipts that arrived after the successor served, for records that were sent before, and are in the history."""

    large: tuple[int, int]
    """Records of bulk pages that were published, and those that were read meanwhile."""

    campaign: Report

    @property
    def total(self) -> Row:
        """Sum of all rows."""
        found = Row()
        for row in self.rows.values():
            for name in ("faults", "takeovers", "receipts", "lost", "doubled", "after_fence", "other"):
                setattr(found, name, getattr(found, name) + getattr(row, name))
            found.beyond_s += row.beyond_s
        return found

    @property
    def ok(self) -> bool:
        """True if every guarantee held."""
        total = self.total
        return self.campaign.ok and not (total.lost or total.doubled or total.after_fence or total.other)

    def table(self) -> str:
        """Return the rows and their sum as text."""
        named = [*self.rows.items(), ("all", self.total)]
        lines = [COLUMNS, *(_cells(name, row) for name, row in named)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(pairs))
            for pairs in (list(zip(line, widths, strict=True)) for line in lines)
        )

    def line(self) -> str:
        """Return the report on one line."""
        rows = {
            name: {
                **{key: value for key, value in asdict(row).items() if key != "beyond_s"},
                "beyond_p50_s": round(quantile(row.beyond_s, 0.5), 3),
                "beyond_p99_s": round(quantile(row.beyond_s, 0.99), 3),
                "warm_takeovers": len(row.beyond_s),
            }
            for name, row in [*self.rows.items(), ("all", self.total)]
        }
        head = {"engine": self.engine, "ok": self.ok, "seed": self.campaign.seed}
        own = {"epochs": self.epochs, "answered_late": self.answered_late, "large": self.large}
        return json.dumps({**head, "faults": rows, **own, "campaign": asdict(self.campaign)})


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed, 0 of none."""
    if not values:
        return 0.0
    if share == 0.5:
        return median(values)
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cells(name: str, row: Row) -> Sequence[str]:
    times: Iterable[str] = (f"{quantile(row.beyond_s, at):.2f}" if row.beyond_s else "-" for at in (0.5, 0.99))
    counts = (row.faults, row.takeovers, row.receipts, row.lost, row.doubled, row.after_fence, row.other)
    return (name, *map(str, counts), *times)
