"""A few faults of each kind that a directory has, a part of ``make test-campaigns``; ``make fault-fleet`` does more."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault_fleet.campaign import Plan, run, unexplained
from tests.fault_fleet.faults import KINDS
from tests.fault_fleet.journals import ENGINES
from tests.support.processes.broker import Launcher, serve_command
from tests.support.storage.memory_folder import memory_folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="forebay-fleet-", dir=memory_folder() or tmp_path) as found:
        yield Path(found)


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_receipt_is_lost_doubled_or_given_after_a_fence_by_a_kill_a_freeze_and_a_partition(folder: Path) -> None:
    messages: list[str] = []

    report = run("directory", Plan(1, 1, 1), random.SystemRandom().randrange(1 << 32), folder, messages.append)

    assert report.ok, "\n".join([report.table(), report.line(), *messages])
    assert {kind: row.faults for kind, row in report.rows.items() if row.faults} == {
        "kill": 1,
        "freeze": 1,
        "client to owner": 1,
    }
    assert report.total.takeovers >= 1
    assert report.total.receipts > 100
    assert report.epochs > 0


def test_a_broker_whose_store_cannot_be_opened_ends_with_the_exit_code_of_the_command(folder: Path) -> None:
    (folder / "store").write_bytes(b"no directory")

    with Launcher() as launcher, serve_command(folder / "store") as command:
        broker = launcher.start(folder / "store", "127.0.0.1:0")

        assert broker.wait() == command.wait() == 1


def test_a_plan_draws_each_fault_as_often_as_it_says_and_only_those_that_the_engine_has() -> None:
    plan = Plan(3, 2, 1)

    directory, bucket, topic = (Counter(plan.drawn(engine, random.Random(1))) for engine in ENGINES)

    assert directory == {"kill": 3, "freeze": 2, "client to owner": 1}
    assert bucket == topic == {"kill": 3, "freeze": 2} | dict.fromkeys(set(KINDS) - {"kill", "freeze"}, 1)


def test_errors_of_a_log_are_explained_by_an_unreachable_engine_and_by_a_fence_until_the_next_ownership() -> None:
    lines = ["a", "journal does not answer", "b", "store was fenced", "c", "took over a journal", "d"]

    assert list(unexplained(lines)) == ["a", "b", "took over a journal", "d"]
