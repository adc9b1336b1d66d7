"""Choices of the backup commands, also where the storage is not installed."""

from __future__ import annotations

from enum import StrEnum


class DamageChoice(StrEnum):
    """Treatment of damaged files; the values are those of ``restore.OnDamage``."""

    STOP = "stop"
    SKIP = "skip"
    REMOVE = "remove"
