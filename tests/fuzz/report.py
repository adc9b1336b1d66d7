"""Result of a run of the fuzzer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.fuzz.calls import CallOutcome

SHOWN_MAX: Final = 2_000
FINDINGS_MAX: Final = 20
MIB: Final = 1 << 20
GROWTH_MAX: Final = 1.10
SETTLED_BYTES: Final = 64 * MIB
"""Memory that may come beside that: caches fill, and the system gives pages out in pieces."""
DESCRIPTORS_MAX: Final = 40
"""Descriptors that may be open at the end and were not at the beginning: files of the store."""
TOO_LARGE: Final = "SERVER: Received message larger than max"
"""Said by the transport, which knows no reasons."""
_SILENT: Final = frozenset({"OK", "CANCELLED"})
_WRONG: Final = frozenset({"UNKNOWN", "INTERNAL", "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "DATA_LOSS"})


@dataclass(slots=True)
class Report:
    """Counters and findings of one run."""

    seed: int
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By call and by reason, or by status where there is none."""
    findings: dict[str, str] = field(default_factory=dict)
    """By kind: an example."""
    private_bytes: list[int] = field(default_factory=list)
    """Of the broker, at equal intervals."""
    descriptors: list[int] = field(default_factory=list)

    def add(self, outcome: CallOutcome) -> None:
        """Take a call in."""
        self.calls[outcome.method, outcome.reason or outcome.code] += 1
        if outcome.code in _SILENT or outcome.details.startswith(TOO_LARGE):
            return
        if outcome.code in _WRONG or not outcome.reason:
            kind = f"{outcome.method} ended with {outcome.code} {outcome.reason or 'without a reason'}"
            requests = " | ".join(request[:SHOWN_MAX].hex() for request in outcome.requests)
            self.find(kind, f"{outcome.details[:SHOWN_MAX]}\nrequests: {requests[: 4 * SHOWN_MAX]}")

    def find(self, kind: str, example: str) -> None:
        """Take a finding in."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.setdefault(kind, example)

    def judge_growth(self) -> None:
        """Compare the end with the middle of a run, and the descriptors with those of the beginning."""
        quarter = len(self.private_bytes) // 4
        if quarter >= 5:
            before = median(self.private_bytes[quarter : 2 * quarter])
            after = median(self.private_bytes[-quarter:])
            if after > before * GROWTH_MAX + SETTLED_BYTES:
                self.find("memory grew", f"{before / MIB:.0f} MiB in the second quarter, {after / MIB:.0f} in the last")
        if self.descriptors and self.descriptors[-1] > self.descriptors[0] + DESCRIPTORS_MAX:
            self.find("descriptors grew", f"{self.descriptors[0]} at the beginning, {self.descriptors[-1]} at the end")

    @property
    def total(self) -> int:
        """Calls that were made."""
        return sum(self.calls.values())

    def line(self) -> str:
        """All of it in one line."""
        reasons: Counter[str] = Counter()
        for (_, reason), count in self.calls.items():
            reasons[reason] += count
        return json.dumps(
            {
                "seed": self.seed,
                "calls": self.total,
                "methods": len({method for method, _ in self.calls}),
                "outcomes": dict(reasons.most_common()),
                "private_mib": [
                    round(size / MIB) for size in self.private_bytes[:: max(1, len(self.private_bytes) // 12)]
                ],
                "descriptors": self.descriptors[:1] + self.descriptors[-1:],
                "findings": self.findings,
            }
        )
