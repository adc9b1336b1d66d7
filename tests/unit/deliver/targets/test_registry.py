"""Finding a target by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forebay.deliver import (
    Batch,
    BatchLimits,
    Delivered,
    InvalidOption,
    Outcome,
    TargetContext,
    TargetUnusable,
    UnknownTarget,
)
from forebay.deliver.targets import registry as targets
from forebay.deliver.targets.console import ConsoleTarget
from forebay.deliver.targets.file import FileTarget
from forebay.deliver.targets.http import HttpTarget
from forebay.packaging import install_command

HERE = "tests.unit.deliver.targets.test_registry"


class Table:
    """A target of a user's own."""

    def __init__(self, *, name: str, key: str = "id") -> None:
        self.name = name
        self.key = key

    def open(self, context: TargetContext) -> BatchLimits | None:
        return None

    def send(self, batch: Batch) -> Outcome:
        return Delivered()

    def close(self) -> None:
        pass


NOT_CALLABLE = 7


def test_the_built_in_targets_are_there() -> None:
    assert isinstance(targets.create("http", {"url": "http://127.0.0.1:1/"}), HttpTarget)
    assert isinstance(targets.create("file", {"path": "out.jsonl"}), FileTarget)
    assert isinstance(targets.create("console", {}), ConsoleTarget)
    assert {"http", "file", "console"} <= set(targets.names())


def test_a_target_of_a_users_own_is_named_by_module_and_attribute() -> None:
    target = targets.create(f"{HERE}:Table", {"name": "orders"})

    assert isinstance(target, targets.load(f"{HERE}:Table"))  # type: ignore[arg-type]  # a class here
    assert (target.name, target.key) == ("orders", "id")  # type: ignore[attr-defined]


def test_a_target_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "tables-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tables\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[forebay.targets]\ntable = {HERE}:Table\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert "table" in targets.names()
    assert type(targets.create("table", {"name": "orders"})).__name__ == "Table"


def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(UnknownTarget, match="console, file, http") as refused:
        targets.create("kafka", {})

    assert refused.value.name == "kafka"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no.such.module:Target", "the module no does not exist"),
        (f"{HERE}:Missing", "has no Missing"),
        (f"{HERE}:NOT_CALLABLE", "is not callable"),
        (f"{HERE}:Path", "lacks open, send or close"),
        (":Target", "Empty module name"),
        (f"{HERE}:", "has no"),
    ],
)
def test_a_name_that_is_no_target_is_refused_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(TargetUnusable, match=problem):
        targets.create(name, {})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("console", {"colour": "blue"}),
        ("file", {}),
        ("http", {}),
        ("http", {"url": "http://127.0.0.1:1/", "colour": "blue"}),
        (f"{HERE}:Table", {"colour": "blue"}),
    ],
)
def test_options_that_do_not_fit_are_refused(name: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        targets.create(name, options)


def test_without_its_library_the_http_target_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from forebay.deliver import targets\n"
        "try:\n    targets.create('http', {'url': 'http://127.0.0.1:1/'})\n"
        "except targets.TargetUnusable as error:\n    print(error)\n"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert install_command("deliver") in run.stdout
