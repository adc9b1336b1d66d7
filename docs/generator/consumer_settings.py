"""Reference of the settings of a consumer with saved positions, from the tables that check them."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from docs.generator.docstrings import of_attributes
from docs.generator.table import number, table
from forebay.client.positions.settings import CHOICES, FORMS, RANGES, ConsumerSettings


def markdown() -> str:
    """Return the table of settings."""
    said = of_attributes(ConsumerSettings)
    rows = [(f"`{each.name}`", _default(each), _allowed(each), said[each.name]) for each in fields(ConsumerSettings)]
    return table(("setting", "default", "allowed", "description"), rows)


def _default(setting: Field[Any]) -> str:
    if isinstance(setting.default, str):
        return f"`{setting.default!r}`"
    return "`None`" if setting.default is None else number(setting.default)


def _allowed(setting: Field[Any]) -> str:
    if setting.name in CHOICES:
        return ", ".join(f"`{word.value!r}`" for word in CHOICES[setting.name])
    if setting.name in RANGES:
        lowest, highest = RANGES[setting.name]
        return f"{number(lowest)} to {number(highest)}" + (", or `None`" if setting.default is None else "")
    return "true, false" if isinstance(setting.default, bool) else FORMS[setting.name]
