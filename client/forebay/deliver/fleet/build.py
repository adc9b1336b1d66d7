"""Deliverers of a plan: their targets, and the gates that targets share."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from weakref import WeakValueDictionary

from forebay.deliver.deliverer import Deliverer
from forebay.deliver.fleet.gate import Gate, GatedTarget
from forebay.deliver.fleet.plan import DeliveryPlan, TargetPlan
from forebay.deliver.health import TargetHealth, Totals
from forebay.deliver.source import SourceClient
from forebay.deliver.targets import registry
from forebay.deliver.targets.target import Target


class Builder:
    """Builds the deliverers of one process. Thread-safe."""

    def __init__(self, client: SourceClient) -> None:
        self._client = client
        self._lock = Lock()
        """Protects the gates and the health."""
        self._gates: WeakValueDictionary[TargetPlan, Gate] = WeakValueDictionary()
        """Gates that a target uses. A target with another plan is another one."""
        self._health: WeakValueDictionary[tuple[str, str], TargetHealth] = WeakValueDictionary()
        """Health of the deliveries that run, by sink and subscription."""

    def deliverer(self, plan: DeliveryPlan) -> Deliverer:
        """Return a deliverer. Raises `DeliverError`."""
        resend_to = None if plan.resend_to is None else self.target(plan.resend_to)
        health = TargetHealth(plan.sink, plan.settings.subscription)
        deliverer = Deliverer(
            *(self._client, plan.sink, self.target(plan.target)),
            resend_to=resend_to,
            settings=replace(plan.settings, target=plan.target.kind),
            health=health,
        )
        with self._lock:
            self._health[plan.sink, plan.settings.subscription] = health
        return deliverer

    def totals(self) -> dict[tuple[str, str], Totals]:
        """Return the counts of the deliveries that run, since their last start, by sink and subscription."""
        with self._lock:
            running = list(self._health.items())
        return {place: health.totals for place, health in running}

    def target(self, plan: TargetPlan) -> Target:
        """Return a target that is not open yet. Raises `DeliverError`."""
        target = registry.create(plan.kind, dict(plan.options))
        if plan.concurrency is None:
            return target
        with self._lock:
            gate = self._gates.get(plan)
            if gate is None:
                gate = self._gates[plan] = Gate(plan.concurrency)
        return GatedTarget(target, gate)
