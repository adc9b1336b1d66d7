"""The deliverer: reads a sink, sends to a target, settles what became of it.

with Client() as client:
    Deliverer(client, "orders", targets.create("http", {"url": "https://example.org/orders"})).run()
"""

from __future__ import annotations

from holdfast.deliver import targets
from holdfast.deliver.batch import Batch, BatchLimits
from holdfast.deliver.deliverer import Deliverer
from holdfast.deliver.errors import DeliverError, InvalidOption, TargetGone, TargetUnusable, UnknownTarget
from holdfast.deliver.outcome import Delivered, Outcome, Reject, Retry
from holdfast.deliver.settings import DelivererSettings
from holdfast.deliver.target import Target, TargetContext

__all__ = [
    "Batch",
    "BatchLimits",
    "DeliverError",
    "Delivered",
    "Deliverer",
    "DelivererSettings",
    "InvalidOption",
    "Outcome",
    "Reject",
    "Retry",
    "Target",
    "TargetContext",
    "TargetGone",
    "TargetUnusable",
    "UnknownTarget",
    "targets",
]
