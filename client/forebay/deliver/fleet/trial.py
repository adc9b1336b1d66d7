"""Trial of a plan: its targets are created, and opened and checked if wanted, without a delivery."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from forebay.deliver.errors import DeliverError
from forebay.deliver.fleet.plan import DeliveryPlan, Plan, TargetPlan
from forebay.deliver.targets import registry
from forebay.deliver.targets.target import Checkable, Target, TargetContext


@dataclass(frozen=True, slots=True)
class Finding:
    """Result for one delivery and one of its targets."""

    delivery: str
    sink: str
    subscription: str
    target: str
    """Name of the target in the plan."""

    problem: str = ""
    """Problem of the target; empty for none."""


def findings(plan: Plan, *, opens: bool) -> list[Finding]:
    """Return a finding per delivery and target; with ``opens``, targets are opened, checked and closed."""
    return [
        Finding(name, one.sink, one.settings.subscription, target.name, _problem(one, target, opens=opens))
        for name, one in plan.deliveries.items()
        for target in (one.target, one.resend_to)
        if target is not None
    ]


def _problem(delivery: DeliveryPlan, plan: TargetPlan, *, opens: bool) -> str:
    try:
        target = registry.create(plan.kind, dict(plan.options))
    except DeliverError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - user code: every exception is a finding
        return _text(error)
    return _problem_of_opening(target, delivery) if opens else ""


def _problem_of_opening(target: Target, delivery: DeliveryPlan) -> str:
    settings = delivery.settings
    try:
        target.open(TargetContext(delivery.sink, settings.subscription, settings.concurrency))
        with closing(target):
            return target.check() if isinstance(target, Checkable) else ""
    except Exception as error:  # noqa: BLE001 - user code: every exception is a finding
        return _text(error)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
