"""Many deliveries in one process, as a file describes them: `forebay run`."""

from __future__ import annotations

from forebay.deliver.fleet.build import Builder
from forebay.deliver.fleet.fleet import Fleet
from forebay.deliver.fleet.plan import DeliveryPlan, Plan, TargetPlan, read_plan
from forebay.deliver.fleet.trial import Finding, findings

__all__ = ["Builder", "DeliveryPlan", "Finding", "Fleet", "Plan", "TargetPlan", "findings", "read_plan"]
