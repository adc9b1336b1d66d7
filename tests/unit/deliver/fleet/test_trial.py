"""A trial creates the targets of a plan, and opens and checks them only if asked to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest

from forebay.deliver import BatchLimits, DelivererSettings, TargetContext
from forebay.deliver.fleet import DeliveryPlan, Plan, TargetPlan, findings, read_plan
from forebay.deliver.targets import registry
from tests.support.targets.recording_target import RecordingTarget


def plan(*targets: TargetPlan) -> Plan:
    deliveries = [DeliveryPlan(one.name, one.name, one, None, DelivererSettings()) for one in targets]
    return Plan({one.name: one for one in deliveries})


def lines(name: str, path: Path) -> TargetPlan:
    return TargetPlan(name, "file", (("path", str(path)),))


def test_an_option_that_the_target_does_not_have_is_found_without_opening(tmp_path: Path) -> None:
    wrong = TargetPlan("wrong", "file", (("paht", "x"),))

    found = findings(plan(lines("good", tmp_path / "out.jsonl"), wrong), opens=False)

    assert [(one.delivery, bool(one.problem)) for one in found] == [("good", False), ("wrong", True)]
    assert "paht" in found[1].problem


def test_a_target_whose_constructor_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def typo(port: str) -> None:
        int(port)

    monkeypatch.setattr(registry, "load", lambda name: typo)

    [found] = findings(plan(TargetPlan("own", "own", (("port", "80a"),))), opens=False)

    assert found.problem.startswith("ValueError: invalid literal for int()")


def test_a_target_that_cannot_be_closed_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(RecordingTarget):
        def close(self) -> None:
            raise OSError("the connection is gone")

    monkeypatch.setattr(registry, "load", lambda name: Stuck)

    [found] = findings(plan(TargetPlan("own", "own", ())), opens=True)

    assert found.problem == "OSError: the connection is gone"


class Checked(RecordingTarget):
    """A target whose system is down."""

    events: ClassVar[list[str]] = []

    def open(self, context: TargetContext) -> BatchLimits | None:
        self.events.append("open")
        return super().open(context)

    def check(self) -> str:
        self.events.append("check")
        return "the system is down"

    def close(self) -> None:
        self.events.append("close")


def test_a_target_that_can_be_checked_is_checked_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checked, "events", [])
    monkeypatch.setattr(registry, "load", lambda name: Checked)
    checked = plan(TargetPlan("own", "own", ()))

    [created], [opened] = findings(checked, opens=False), findings(checked, opens=True)

    assert (created.problem, opened.problem) == ("", "the system is down")
    assert Checked.events == ["open", "check", "close"]


def test_a_check_that_fails_is_a_finding_and_the_target_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Checked):
        def check(self) -> str:
            raise ConnectionError("no route")

    monkeypatch.setattr(Checked, "events", [])
    monkeypatch.setattr(registry, "load", lambda name: Broken)

    [found] = findings(plan(TargetPlan("own", "own", ())), opens=True)

    assert found.problem == "ConnectionError: no route"
    assert Checked.events == ["open", "close"]


def test_a_folder_that_does_not_exist_is_found_by_opening_only(tmp_path: Path) -> None:
    absent = plan(lines("absent", tmp_path / "no" / "out.jsonl"))

    [created], [opened] = findings(absent, opens=False), findings(absent, opens=True)

    assert created.problem == ""
    assert "does not exist" in opened.problem


def test_the_example_of_the_guide_is_valid(tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "run-many-deliveries.md"
    [example] = re.findall(r"^```toml\n(.*?)^```$", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "deliveries.toml").write_text(example)

    found = findings(read_plan(tmp_path / "deliveries.toml", {"CRM_KEY": "x"}), opens=False)

    assert [(one.delivery, one.sink, one.target, one.problem) for one in found] == [
        ("orders", "orders", "crm", ""),
        ("orders", "orders", "archive", ""),
        ("invoices", "invoices-eu", "crm", ""),
    ]


def test_each_target_of_a_delivery_has_a_finding(tmp_path: Path) -> None:
    good, late = lines("good", tmp_path / "a.jsonl"), lines("late", tmp_path / "no" / "b.jsonl")
    both = Plan({"orders": DeliveryPlan("orders", "orders", good, late, DelivererSettings())})

    found = findings(both, opens=True)

    assert [(one.target, bool(one.problem)) for one in found] == [("good", False), ("late", True)]
