"""Formats of the data directory, and the migration of an older one.

A step changes the values of a store from one format to the next. While it works, the file `FORMAT` names both formats,
so no version takes the directory for one of its own; when all changes are durable, it names the new one. A step that
was interrupted is applied again by the next start, and changes what is left. The report of the steps is the file
`migrations.json`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from forebay.broker.storage.store.contract import Store

_log: Final = logging.getLogger(__name__)
FORMAT: Final = 3
"""Number of the format that this version writes. A new one needs a step in ``FORMATS``."""
_TEXT: Final = re.compile(r"(\d{1,9})(?: to (\d{1,9}))?")
INCOMPLETE: Final = " incomplete"
"""End of the text for a directory with remote files.

Versions that cannot fetch them do not open it.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """Change of a store from the format before to the format ``to``."""

    to: int
    change: str
    """Description for the report."""

    apply: Callable[[Store], int]
    """Change all values that still have the former format; returns their number.

    It writes in batches of bounded size, each of which leaves a store that it can continue with: it may end after any
    of them, and is called again then. Bulk files are never changed.
    """


@dataclass(frozen=True, slots=True)
class Formats:
    """Format that is written, and the steps that lead to it, the oldest first."""

    current: int
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        """Check that the steps have no gap."""
        expected = list(range(self.oldest + 1, self.current + 1))
        if [step.to for step in self.steps] != expected:
            raise ValueError(f"the steps lead to {[step.to for step in self.steps]}, they must lead to {expected}")

    @property
    def oldest(self) -> int:
        """Oldest format that can be opened."""
        return self.current - len(self.steps)


FORMATS: Final = Formats(FORMAT)


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """A step that was applied."""

    to: int
    change: str
    values: int
    """Values that were changed, by the start that completed the step."""

    seconds: float


class Numbered(Protocol):
    """Directory with a format number."""

    format: int
    """Format of its values; the older one during a step."""

    def write_format(self, text: str) -> None:
        """Write the file `FORMAT`, atomically and durably."""
        ...

    def write_report(self, content: bytes) -> None:
        """Write the report of the migrations, likewise."""
        ...

    def read_report(self) -> bytes:
        """Return the report of earlier migrations; empty without one."""
        ...


def format_in(text: str) -> int | None:
    """Return the format that the file `FORMAT` names: of two the older one; None for another text."""
    found = _TEXT.fullmatch(text.strip().removesuffix(INCOMPLETE))
    if found is None or (found[2] is not None and int(found[2]) != int(found[1]) + 1):
        return None
    return int(found[1])


def migrate(
    store: Store, directory: Numbered, formats: Formats, monotonic: Callable[[], float]
) -> Sequence[AppliedStep]:
    """Apply the steps from the format of a directory to the current one. Raises ``StoreError``."""
    applied: list[AppliedStep] = []
    first = directory.format
    for step in formats.steps:
        if step.to <= directory.format:
            continue
        began = monotonic()
        directory.write_format(f"{step.to - 1} to {step.to}")
        values = step.apply(store)
        store.sync()
        applied.append(AppliedStep(step.to, step.change, values, round(monotonic() - began, 3)))
        directory.write_report(_report(directory.read_report(), applied[-1]))
        directory.write_format(f"{step.to}")
        directory.format = step.to
        _log.info("format was changed format=%d values=%d seconds=%.3f change=%r", *_facts(applied[-1]))
    if applied:
        _log.warning(
            "data directory was migrated, earlier versions do not open it any more"
            " format_before=%d format=%d values=%d",
            *(first, directory.format, sum(each.values for each in applied)),
        )
    return applied


def _facts(step: AppliedStep) -> tuple[int, int, float, str]:
    return step.to, step.values, step.seconds, step.change


def _report(before: bytes, step: AppliedStep) -> bytes:
    """Return the report with a step; one that was interrupted after its report is replaced."""
    steps = [one for one in (json.loads(before) if before else []) if one["to"] != step.to]
    return json.dumps([*steps, asdict(step)], indent=1).encode() + b"\n"
