"""Reference of the broker's metrics, from their tables."""

from __future__ import annotations

from typing import Final

from docs.generator.table import table
from forebay.broker.runtime.metrics import GROUP, PARTITION, SINK
from forebay.broker.telemetry.instruments import METRICS

_LABELS: Final = {SINK: "sink", PARTITION: "partition", GROUP: "subscription"}


def markdown() -> str:
    """Return the table of the broker's metrics."""
    rows = (
        (
            f"`{each.name}`",
            each.kind,
            f"`{each.unit}`",
            ", ".join(_LABELS.get(label, f"`{label}`") for label in each.labels),
            each.description,
        )
        for each in METRICS
    )
    return table(("metric", "kind", "unit", "by", "says"), rows)
