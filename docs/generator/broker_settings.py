"""Reference of the broker's settings, from the class that reads them."""

from __future__ import annotations

from typing import Any

from docs.generator.docstrings import of_attributes
from docs.generator.table import number, table
from forebay.broker.settings import BrokerSettings


def markdown() -> str:
    """Return the table of settings, without the sink's defaults."""
    said = of_attributes(BrokerSettings)
    fields = {name: field for name, field in BrokerSettings.model_fields.items() if name != "sink_defaults"}
    rows = [(f"`{name}`", number(field.default), _bounds(field), said[name]) for name, field in fields.items()]
    return table(("setting", "default", "allowed", "description"), rows)


def _bounds(field: Any) -> str:
    low = next((found.ge for found in field.metadata if hasattr(found, "ge")), None)
    high = next((found.le for found in field.metadata if hasattr(found, "le")), None)
    if low is None or high is None:
        return "true, false" if isinstance(field.default, bool) else ""
    return f"{number(low)} to {number(high)}"
