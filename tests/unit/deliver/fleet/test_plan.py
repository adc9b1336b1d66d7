"""A file of deliveries is read as a whole: every problem is named, and secrets are in no text."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from forebay.deliver import BatchLimits, PlanInvalid
from forebay.deliver.fleet import Plan, read_plan

FULL = """
    [targets.crm]
    to = "https://example.org/orders"
    concurrency = 4
    batch_records = 200
    batch_bytes = "2MiB"
    batch_wait = "500ms"

    [targets.crm.options]
    envelope = true
    timeout_s = 5
    header = { X-Region = "eu", Authorization = { env = "CRM_TOKEN" } }

    [targets.late]
    to = "file"
    options = { path = "late.jsonl" }

    [deliveries.orders]
    target = "crm"
    resend_to = "late"
    concurrency = 2
    credit_records = 100
    credit_bytes = "1MiB"

    [deliveries.audit]
    sink = "orders"
    subscription = "audit"
    target = "late"
"""


def read(folder: Path, text: str, **environment: str) -> Plan:
    path = folder / "deliveries.toml"
    path.write_text(dedent(text))
    return read_plan(path, environment)


def problems(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(PlanInvalid) as found:
        read(folder, text)
    return found.value.problems


def test_a_file_becomes_deliveries_with_their_targets_and_limits(tmp_path: Path) -> None:
    plan = read(tmp_path, FULL, CRM_TOKEN="Bearer s3cret")

    orders, audit = plan.deliveries["orders"], plan.deliveries["audit"]
    assert (orders.sink, orders.settings.subscription) == ("orders", "default")
    assert (audit.sink, audit.settings.subscription, audit.resend_to) == ("orders", "audit", None)
    assert (orders.target.kind, orders.target.concurrency) == ("http", 4)
    assert dict(orders.target.options) == {
        "url": "https://example.org/orders",
        "envelope": "true",
        "timeout_s": "5",
        "header.X-Region": "eu",
        "header.Authorization": "Bearer s3cret",
    }
    settings = orders.settings
    assert settings.batch == orders.target.batch == BatchLimits(200, 2 << 20, wait_s=0.5)
    assert (settings.concurrency, settings.credit_records, settings.credit_bytes) == (2, 100, 1 << 20)
    assert [target.name for target in plan.targets] == ["crm", "late"]
    assert (audit.settings.batch, audit.settings.resend_batch) == (None, None)


@pytest.mark.parametrize(
    ("limits", "expected"), [("", BatchLimits.of_target()), ("batch_records = 50", BatchLimits.given(50, None))]
)
def test_a_target_of_redelivered_records_has_limits_of_its_own(
    tmp_path: Path, limits: str, expected: BatchLimits
) -> None:
    text = f"""
        [targets.crm]
        to = "console"
        batch_records = 1
        [targets.late]
        to = "console"
        {limits}
        [deliveries.orders]
        target = "crm"
        resend_to = "late"
    """

    settings = read(tmp_path, text).deliveries["orders"].settings

    assert (settings.batch, settings.resend_batch) == (BatchLimits.given(1, None), expected)


def test_a_secret_is_in_no_text_of_a_plan(tmp_path: Path) -> None:
    assert "s3cret" not in repr(read(tmp_path, FULL, CRM_TOKEN="s3cret"))


def test_equal_files_are_equal_plans_and_another_secret_is_another_plan(tmp_path: Path) -> None:
    first, same = (read(tmp_path, FULL, CRM_TOKEN="a") for _ in range(2))
    other = read(tmp_path, FULL, CRM_TOKEN="b")

    assert first == same
    assert first.deliveries["orders"] != other.deliveries["orders"]
    assert first.deliveries["audit"] == other.deliveries["audit"]


def test_postgresql_is_recognized_by_its_address(tmp_path: Path) -> None:
    plan = read(
        tmp_path,
        """
        [targets.db]
        to = "postgresql://me@db/orders"
        options = { table = "orders" }
        [deliveries.orders]
        target = "db"
        """,
    )

    assert plan.deliveries["orders"].target.kind == "postgresql"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "deliveries: must be 1 to 256"),
        ("x = 1", "x: unknown; must be one of deliveries, targets"),
        ("[targets]\na = 1\n[deliveries.a]\ntarget = 'a'", "targets.a: must be a table"),
        ("targets = 1", "targets: must be tables [targets.NAME]"),
        ("deliveries = 1", "deliveries: must be tables [deliveries.NAME]"),
        ("[deliveries.a]", "deliveries.a.target: must be the name of a table in [targets]: which has none"),
        ("[targets.t]\nto = 'console'\n[deliveries.a]\ntarget = 'x'", "deliveries.a.target = 'x': must be the name"),
        (
            "[targets.t]\nto = 'console'\ntoo = 1\n[deliveries.a]\ntarget = 't'",
            "targets.t.too: unknown; must be one of",
        ),
        ("[targets.t]\n[deliveries.a]\ntarget = 't'", "targets.t.to: must be text, a number, true or false"),
        ("[targets.t]\nto = 'console'\nconcurrency = 0\n[deliveries.a]\ntarget = 't'", "targets.t.concurrency = 0"),
        (
            "[targets.t]\nto = 'console'\nbatch_bytes = 'x'\n[deliveries.a]\ntarget = 't'",
            "batch_bytes = 'x': must be 1",
        ),
        (
            "[targets.t]\nto = 'console'\nbatch_wait = '2h'\n[deliveries.a]\ntarget = 't'",
            "targets.t.batch_wait = '2h': must be 0 to 3600 seconds",
        ),
        ("[targets.t]\nto = 'console'\nbatch_wait = true\n[deliveries.a]\ntarget = 't'", "batch_wait = True: must be"),
        ("[targets.t]\nto = 'console'\n[deliveries.a]\ntarget = 't'\nconcurrency = 257", "must be 1 to 256"),
        ("[targets.t]\nto = 'console'\n[deliveries.a]\ntarget = 't'\ncredit_records = true", "credit_records = True"),
        ("[targets.t]\nto = 'console'\n[deliveries.a]\ntarget = 't'\nsink = 3", "deliveries.a.sink = 3: must be text"),
        (
            "[targets.t]\nto = 'console'\noptions = 1\n[deliveries.a]\ntarget = 't'",
            "targets.t.options: must be a table",
        ),
        (
            "[targets.t]\nto = 'x:y'\noptions = { token = 'hunter2' }\n[deliveries.a]\ntarget = 't'",
            "targets.t.options.token: a secret must come from",
        ),
        (
            "[targets.t]\nto = { env = 'ABSENT' }\n[deliveries.a]\ntarget = 't'",
            "targets.t.to: the environment has no variable ABSENT",
        ),
        (
            "[targets.t]\nto = 'console'\n[deliveries.a]\ntarget = 't'\n[deliveries.b]\nsink = 'a'\ntarget = 't'",
            "deliveries.b: subscription 'default' of sink 'a' is that of deliveries.a",
        ),
    ],
)
def test_a_problem_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)

    assert [problem for problem in found if said in problem] != []
    assert not any("hunter2" in problem for problem in found)


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    text = "[targets.t]\nto = 'console'\nx = 1\n[deliveries.a]\ntarget = 't'\ny = 1\n[deliveries.b]\ntarget = 'z'"

    assert len(problems(tmp_path, text)) == 3


def test_a_file_that_is_missing_or_no_toml_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlanInvalid, match="cannot be read"):
        read_plan(tmp_path / "absent.toml", {})
    assert "is no TOML file" in problems(tmp_path, "[targets")[0]
