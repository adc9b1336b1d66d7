"""Deliveries live on their own: one that fails, changes or ends leaves the others as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from forebay.deliver import (
    Batch,
    Delivered,
    Deliverer,
    DelivererSettings,
    Outcome,
    PlanInvalid,
    TargetContext,
    UnknownTarget,
)
from forebay.deliver.fleet import DeliveryPlan, Fleet, Plan, TargetPlan
from tests.support.calls.eventually import until
from tests.support.targets.memory_source import MemorySource, records
from tests.support.targets.recording_target import RecordingTarget, Rule, take_all

WAIT_S = 20.0


class BrokenTarget(RecordingTarget):
    """A target that cannot be opened."""

    def open(self, context: TargetContext) -> None:
        raise ConnectionRefusedError("the target is away")


class Bench:
    """A plan that a test changes, and the deliverers that were made for it."""

    def __init__(self, *names: str) -> None:
        self.plan: dict[str, DeliveryPlan] = {}
        for name in names:
            self.want(name)
        self.problem = ""
        self.error: Exception | None = None
        self.queued: list[dict[str, DeliveryPlan]] = []
        """Plans of the next loads."""
        self.broken: set[str] = set()
        self.rules: dict[str, Rule] = {}
        self.made: SimpleQueue[str] = SimpleQueue()
        self.sources: dict[str, list[MemorySource]] = {}
        self.targets: dict[str, list[RecordingTarget]] = {}

    def want(self, name: str, *, kind: str = "console") -> None:
        target = TargetPlan(f"target-of-{name}", kind, ())
        self.plan[name] = DeliveryPlan(name, name, target, None, DelivererSettings(concurrency=1))

    def load(self) -> Plan:
        if self.queued:
            return Plan(self.queued.pop(0))
        if self.error is not None:
            raise self.error
        if self.problem:
            raise PlanInvalid("deliveries.toml", [self.problem])
        return Plan(dict(self.plan))

    def make(self, plan: DeliveryPlan) -> Deliverer:
        if plan.target.kind == "unknown":
            self.made.put(plan.name)
            raise UnknownTarget("unknown", ["console"])
        source = MemorySource([records(3)], per_delivery=3)
        target = BrokenTarget() if plan.name in self.broken else RecordingTarget(self.rules.get(plan.name, take_all))
        self.sources.setdefault(plan.name, []).append(source)
        self.targets.setdefault(plan.name, []).append(target)
        self.made.put(plan.name)
        return Deliverer(source, plan.sink, target, settings=plan.settings)

    def delivered(self, name: str) -> None:
        """Wait until the newest deliverer of a name has delivered everything."""
        until(lambda: name in self.sources)
        assert self.sources[name][-1].all_settled.get(timeout=WAIT_S)

    def closed(self, name: str) -> list[int]:
        """Number of times that each target of a name was closed."""
        return [target.closed for target in self.targets[name]]


@contextmanager
def running(bench: Bench) -> Iterator[Fleet]:
    fleet = Fleet(bench.load, bench.make, restart_delays_s=(0.001,))
    thread = Thread(target=fleet.run)
    thread.start()
    try:
        yield fleet
    finally:
        fleet.stop()
        thread.join(WAIT_S)
    assert not thread.is_alive()


def test_every_delivery_runs_and_is_closed_at_the_stop() -> None:
    bench = Bench("orders", "events")

    with running(bench):
        bench.delivered("orders")
        bench.delivered("events")

    assert (bench.closed("orders"), bench.closed("events")) == ([1], [1])


def test_a_target_that_cannot_be_opened_is_tried_again_and_the_others_deliver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench("orders", "events")
    bench.broken.add("orders")

    with running(bench):
        bench.delivered("events")
        until(lambda: len(bench.targets.get("orders", [])) >= 3)
        bench.broken.clear()
        until(lambda: any(not isinstance(one, BrokenTarget) for one in bench.targets["orders"]))
        bench.delivered("orders")

    assert len(bench.targets["events"]) == 1
    assert "delivery failed name=orders sink=orders: the target is away" in caplog.text


def test_a_target_that_hangs_holds_back_no_other_and_no_reload() -> None:
    bench = Bench("orders", "events")
    hanging, release = Event(), Event()

    def hang(batch: Batch) -> Outcome:
        hanging.set()
        assert release.wait(WAIT_S)
        return Delivered()

    bench.rules["orders"] = hang
    with running(bench) as fleet:
        assert hanging.wait(WAIT_S)
        bench.delivered("events")
        del bench.plan["orders"]
        bench.want("added")
        fleet.reload()
        bench.delivered("added")

        assert bench.closed("orders") == [0]
        release.set()
        until(lambda: bench.closed("orders") == [1])


def test_a_deliverer_that_cannot_be_made_is_tried_again() -> None:
    bench = Bench("events")
    bench.want("orders", kind="unknown")

    with running(bench) as fleet:
        made = [bench.made.get(timeout=WAIT_S) for _ in range(4)]
        bench.want("orders")
        fleet.reload()
        bench.delivered("orders")

    assert made.count("orders") >= 3


def test_a_reload_starts_stops_and_replaces_and_leaves_the_rest_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench("same", "removed", "changed")

    with running(bench) as fleet:
        for name in ("same", "removed", "changed"):
            bench.delivered(name)
        del bench.plan["removed"]
        bench.want("changed", kind="file")
        bench.want("added")
        fleet.reload()
        bench.delivered("added")
        until(lambda: len(bench.sources["changed"]) == 2)
        bench.delivered("changed")
        until(lambda: bench.closed("removed") == [1])

        assert bench.closed("same") == [0]
        assert bench.closed("changed") == [1, 0]

    assert bench.closed("same") == [1]
    assert "deliveries were reloaded added=1 removed=1 changed=1 unchanged=1" in caplog.text


def test_a_change_that_is_undone_while_the_delivery_stops_starts_it_at_once() -> None:
    bench = Bench("orders")
    original = dict(bench.plan)
    fleet = Fleet(bench.load, bench.make, restart_delays_s=(3_600.0,))
    thread = Thread(target=fleet.run)
    thread.start()
    bench.delivered("orders")
    bench.want("orders", kind="file")
    bench.queued = [dict(bench.plan), original]

    fleet.reload()
    fleet.reload()
    until(lambda: bench.closed("orders")[:1] == [1] and len(bench.sources["orders"]) >= 2)
    bench.delivered("orders")
    fleet.stop()
    thread.join(WAIT_S)

    assert not thread.is_alive()


def test_a_reload_of_a_wrong_file_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench("orders")

    with running(bench) as fleet:
        bench.delivered("orders")
        bench.problem = "deliveries.orders.target: must be text"
        fleet.reload()
        until(lambda: "and continue unchanged" in caplog.text)
        bench.problem = ""
        bench.want("events")
        fleet.reload()
        bench.delivered("events")

        assert bench.closed("orders") == [0]


def test_a_reload_that_fails_in_the_module_of_a_target_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench("orders")

    with running(bench) as fleet:
        bench.delivered("orders")
        bench.error = SyntaxError("of another's module")
        fleet.reload()
        until(lambda: "and continue unchanged: of another's module" in caplog.text)
        bench.error = None
        bench.want("events")
        fleet.reload()
        bench.delivered("events")

        assert bench.closed("orders") == [0]


def test_a_delivery_that_waits_for_its_restart_can_be_removed() -> None:
    bench = Bench("orders", "events")
    bench.broken.add("orders")
    fleet = Fleet(bench.load, bench.make, restart_delays_s=(3_600.0,))
    thread = Thread(target=fleet.run)
    thread.start()
    until(lambda: len(bench.targets.get("orders", [])) == 1)
    del bench.plan["orders"]
    fleet.reload()
    bench.delivered("events")

    fleet.stop()
    thread.join(WAIT_S)

    assert not thread.is_alive()
    assert len(bench.targets["orders"]) == 1


def test_a_wrong_file_at_the_start_is_raised() -> None:
    bench = Bench("orders")
    bench.problem = "wrong"

    with pytest.raises(PlanInvalid, match="wrong"):
        Fleet(bench.load, bench.make).run()
