"""A sample of a sink's settings, from the table: valid, and no value is a default."""

from __future__ import annotations

from typing import Any, Final

from forebay.broker.core.settings import SETTINGS, Setting, SinkSettings


def _other(setting: Setting) -> Any:
    """Return the first allowed value that is not the default."""
    if isinstance(setting.default, bool):
        return not setting.default
    kind = float if isinstance(setting.default, float) else int
    values = [*(setting.choices or ()), *setting.named, setting.low, setting.high]
    return next(kind(value) for value in values if value != setting.default and setting.allows(value))


OTHER: Final = SinkSettings(**{setting.name: _other(setting) for setting in SETTINGS}).checked()
