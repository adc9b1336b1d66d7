"""Deliverers of one plan share the gates of their targets."""

from __future__ import annotations

import pytest

from forebay.deliver import Deliverer, DelivererSettings, InvalidOption
from forebay.deliver.fleet.build import Builder
from forebay.deliver.fleet.gate import GatedTarget
from forebay.deliver.fleet.plan import DeliveryPlan, TargetPlan
from tests.support.targets.memory_source import MemorySource

CONSOLE = TargetPlan("screen", "console", (), concurrency=2)


def builder() -> Builder:
    return Builder(MemorySource([[]], per_delivery=1))


def test_targets_of_one_plan_share_a_gate_and_others_do_not() -> None:
    made = builder()
    first, second = made.target(CONSOLE), made.target(CONSOLE)
    other = made.target(TargetPlan("screen", "console", (), concurrency=3))

    assert isinstance(first, GatedTarget)
    assert isinstance(second, GatedTarget)
    assert isinstance(other, GatedTarget)
    assert first._gate is second._gate
    assert first._gate is not other._gate


def test_a_target_without_a_common_limit_has_no_gate() -> None:
    assert not isinstance(builder().target(TargetPlan("screen", "console", ())), GatedTarget)


def test_a_wrong_option_is_an_error_of_the_delivery() -> None:
    wrong = TargetPlan("out", "file", (("paht", "x"),))

    with pytest.raises(InvalidOption, match="paht"):
        builder().deliverer(DeliveryPlan("a", "a", wrong, None, DelivererSettings()))


def test_a_plan_becomes_a_deliverer() -> None:
    plan = DeliveryPlan("a", "a", CONSOLE, CONSOLE, DelivererSettings())

    assert isinstance(builder().deliverer(plan), Deliverer)
