"""Checks of the broker: answer, clock, and the disk of its data directory."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.cli import run
from forebay.cli.doctor.broker import answer_checks, broker_checks, clock_check, directory_check, shard_checks
from forebay.cli.doctor.check import Grade
from forebay.cli.exits import ExitCode
from forebay.client import BrokerInfo
from forebay.packaging import NAME
from tests.support.calls.fleet_fake import fleet_of
from tests.support.targets.scripted_server import Answer, serving


def test_a_broker_that_answers_has_a_version_and_a_clock() -> None:
    with BrokerServer.in_memory() as broker:
        found = {one.subject: one for one in broker_checks(broker.endpoint, None)}

    assert [(subject, one.grade) for subject, one in found.items()] == [("broker", Grade.OK), ("clock", Grade.OK)]
    assert "serves, version" in found["broker"].text


def test_the_disk_of_a_broker_is_checked_as_the_broker_reports_it(tmp_path: Path) -> None:
    with BrokerServer.on_disk(load(data_dir=tmp_path / "data", listen="127.0.0.1:0", disk_reserve_bytes=0)) as broker:
        found = {one.subject: one for one in broker_checks(broker.endpoint, None)}

    assert f"{tmp_path / 'data'} of {broker.endpoint}" in found["disk"].text


def answer(**facts: Any) -> BrokerInfo:
    """The answer of a broker with the version of this package."""
    now = datetime.now(UTC)
    known: dict[str, Any] = {
        **dict.fromkeys((field.name for field in fields(BrokerInfo)[:16]), 0),
        **{"version": version(NAME), "state": "SERVING", "state_reason": "", "data_dir": "", "started_at": now},
    }
    return BrokerInfo(**{**known, "now": now, **facts})


def test_the_disk_of_another_machine_is_that_which_its_broker_reports(tmp_path: Path) -> None:
    full = answer(data_dir=str(tmp_path), disk_free_bytes=1, disk_reserve_bytes=1 << 30)

    found = {one.subject: one for one in answer_checks("prod:7311", full)}

    assert (found["disk"].grade, "prod:7311" in found["disk"].text) == (Grade.PROBLEM, True)


def test_an_older_broker_that_reports_no_disk_gets_no_check_of_it(tmp_path: Path) -> None:
    found = answer_checks("prod:7311", answer(data_dir=str(tmp_path), now=None))

    assert [(one.subject, one.grade) for one in found] == [("broker", Grade.OK)]


def test_a_name_that_exists_in_two_shards_is_a_problem_with_advice() -> None:
    with fleet_of({"a": ["orders"], "b": ["orders"]}) as owners, owners["a"].client() as client:
        [found] = shard_checks(client)
        owners["b"].stop()
        [unknown] = shard_checks(client)
    with fleet_of({"a": ["orders"], "b": ["bills"]}) as owners, owners["a"].client() as client:
        [fine] = shard_checks(client)

    assert [one.grade for one in (found, unknown, fine)] == [Grade.PROBLEM, Grade.WARNING, Grade.OK]
    assert "sink 'orders' is in shards" in found.text
    assert "forebay sink delete orders --endpoint 127.0.0.1:" in found.advice


def test_failures_that_a_broker_reports_are_shown() -> None:
    info = answer(
        unreadable=("orders/0: Input/output error",),
        background_failures=("reclaimer: OSError",),
        realtime_failure="MemoryError",
        memory_used_bytes=91,
        memory_limit_bytes=100,
        memory_high_watermark=0.9,
        journal_outage="JOURNAL_FULL",
        journal_outage_cause="No space left on device",
    )

    found = [(one.subject, one.grade) for one in answer_checks("prod:7311", info)]

    assert found == [
        ("broker", Grade.OK),
        ("journal", Grade.PROBLEM),
        ("memory", Grade.WARNING),
        ("reads", Grade.PROBLEM),
        ("background", Grade.WARNING),
        ("realtime", Grade.WARNING),
    ]


def test_a_broker_that_does_not_answer_is_a_problem_with_its_advice() -> None:
    [found] = broker_checks("127.0.0.1:1", None)

    assert (found.grade, found.subject) == (Grade.PROBLEM, "broker")
    assert "forebay" not in found.text
    assert "--wait" in found.advice


def test_a_server_that_is_no_broker_is_a_problem_beside_the_other_checks(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda _: Answer(200)) as server:
        endpoint = urlsplit(server.url).netloc
        [found] = broker_checks(endpoint, None)
        assert run(["doctor", "-e", endpoint, "-o", "json"]) == ExitCode.FAILED

    shown = json.loads(capsys.readouterr().out)["checks"]
    assert (found.grade, found.subject) == (Grade.PROBLEM, "broker")
    assert "is no Forebay broker" in found.text
    assert "gRPC port" in found.advice
    assert {"python", "broker"} <= {one["subject"].lower() for one in shown}


@pytest.mark.parametrize(
    ("skew_s", "uncertain_s", "grade"),
    [
        (0.5, 0.0, Grade.OK),
        (-1.5, 1.0, Grade.OK),
        (-2.5, 0.1, Grade.WARNING),
        (59.0, 0.0, Grade.WARNING),
        (-61.0, 0.0, Grade.PROBLEM),
    ],
)
def test_clocks_may_differ_by_a_second(skew_s: float, uncertain_s: float, grade: Grade) -> None:
    found = clock_check(skew_s, uncertain_s)

    assert found.grade is grade
    assert ("ahead of" in found.text) is (skew_s > 0)


def test_a_disk_below_its_reserve_is_a_problem(tmp_path: Path) -> None:
    assert directory_check(tmp_path, 0).grade is Grade.OK
    assert directory_check(tmp_path, 1 << 60).grade is Grade.PROBLEM
    assert directory_check(tmp_path / "none", 0).grade is Grade.PROBLEM
