"""Reference of a sink's settings, from the configuration, the bounds of the core and the comments of the protos."""

from __future__ import annotations

import re

from docs.generator.proto_comments import comments
from docs.generator.table import number, one_line, table
from forebay.broker.core.settings import DEFAULTS, SETTING_NAMES, BufferMode, Ordering, Overflow, allowed_values
from forebay.broker.settings import SinkDefaults

_CHOICES = {"overflow": Overflow, "ordering": Ordering, "buffer_mode": BufferMode}


def markdown() -> str:
    """Return the table of settings."""
    said = comments("sink.proto")
    defaults = SinkDefaults()
    rows = []
    for core in SETTING_NAMES:
        name = core.removesuffix("_us") + "_s" if core.endswith("_us") else core
        field = core.removesuffix("_us")
        rows.append(
            (f"`{name}`", number(getattr(defaults, name)), _allowed(core), _plain(said[f"SinkSettings.{field}"]))
        )
    return table(("setting", "default", "allowed", "description"), rows)


def _allowed(name: str) -> str:
    if name in _CHOICES:
        return ", ".join(f"`{member.name}`" for member in _CHOICES[name])
    if isinstance(getattr(DEFAULTS, name), bool):
        return "`true`, `false`"
    return allowed_values(name)


def _plain(comment: str) -> str:
    """Return a comment without its default, which has a column, and with values as the configuration names them."""
    text = re.sub(r"\s*Default [^.]*(?:\.\d[^.]*)*\.(?=\s|$)", "", one_line(comment))
    return re.sub(r"\b(?:OVERFLOW|ORDERING|BUFFER_MODE|DROP_REASON|DURABILITY)_(?=[A-Z])", "", text)
