"""Reference of a sink's settings: the table of the core, and the client's docstrings, made of the schema's comments."""

from __future__ import annotations

import re

from docs.generator.docstrings import of_attributes
from docs.generator.table import number, table
from forebay.broker.core.settings import SECOND_US, SETTINGS, Setting
from forebay.client import SinkSettings


def markdown() -> str:
    """Return the table of settings."""
    said = of_attributes(SinkSettings)
    rows = [
        (f"`{each.public_name}`", _default(each), _allowed(each), _plain(said[each.public_name])) for each in SETTINGS
    ]
    return table(("setting", "default", "allowed", "description"), rows)


def guarantees() -> str:
    """Return the table of the effects of settings on the guarantees, without settings that have none."""
    rows = [(f"`{each.public_name}`", each.guarantee) for each in SETTINGS if each.guarantee != "kept"]
    return table(("setting", "guarantees"), rows)


def _default(setting: Setting) -> str:
    """Return the default as the configuration has it."""
    if setting.choices is not None:
        return f"`{setting.text(setting.default)}`"
    return number(setting.default / SECOND_US if setting.is_duration else setting.default)


def _allowed(setting: Setting) -> str:
    if setting.choices is not None:
        return ", ".join(f"`{member.name}`" for member in setting.choices)
    return setting.allowed


def _plain(docstring: str) -> str:
    """Return a docstring without the allowed values and the default, which have columns."""
    return re.sub(r"\s*(?:Allowed:\s.*)?Default:\s.*$", "", docstring, flags=re.DOTALL)
