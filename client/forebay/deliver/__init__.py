"""Deliverer: reads a sink, sends its records to a target, and settles them.

with Client() as client:
    Deliverer(client, "orders", targets.create("http", {"url": "https://example.org/orders"})).run()
"""

from __future__ import annotations

from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.deliverer import Deliverer
from forebay.deliver.errors import (
    DeliverError,
    InvalidOption,
    PlanInvalid,
    TargetClosed,
    TargetUnusable,
    UnknownTarget,
)
from forebay.deliver.health import Totals
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.deliver.settings import DelivererSettings
from forebay.deliver.targets import registry as targets
from forebay.deliver.targets.target import Target, TargetContext

__all__ = [
    "Batch",
    "BatchLimits",
    "DeliverError",
    "Delivered",
    "Deliverer",
    "DelivererSettings",
    "InvalidOption",
    "Outcome",
    "PlanInvalid",
    "Reject",
    "Retry",
    "Target",
    "TargetClosed",
    "TargetContext",
    "TargetUnusable",
    "Totals",
    "UnknownTarget",
    "targets",
]
