"""Result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """Grade of a result."""

    OK = "ok"
    WARNING = "warning"
    """It works, and something may not."""

    PROBLEM = "problem"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    subject: str
    grade: Grade
    text: str
    advice: str = ""
    """Recommended action; empty for none."""
