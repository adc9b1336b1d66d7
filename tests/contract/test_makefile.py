"""The Makefile has a rule with a recipe for every target that it declares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
MOVED: Final = "moved"
"""A prerequisite that is never there: it needs no rule."""


def test_every_declared_target_has_a_recipe() -> None:
    declared = {name for line in re.findall(r"^\.PHONY:(.*)$", TEXT, re.MULTILINE) for name in line.split()}
    with_recipe = set(re.findall(r"^([a-z][a-z-]*):(?!=).*\n\t", TEXT, re.MULTILINE))
    aliases = set(re.findall(r"^([a-z][a-z-]*): \.\S+ ", TEXT, re.MULTILINE))

    assert declared - with_recipe - aliases == {MOVED}


def test_the_contributing_page_names_targets_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page, re.MULTILINE))

    assert named
    assert named <= set(re.findall(r"^([a-z][a-z-]*):", TEXT, re.MULTILINE))


def test_ci_runs_every_target_of_tests_but_that_of_the_browser_and_the_contributing_page_names_them() -> None:
    tests = set(re.findall(r"^(test[a-z-]*):", TEXT, re.MULTILINE))
    run = re.findall(r"^make ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [sentence] = re.findall(r"`\.ci/run` runs (.*?);", page, re.DOTALL)

    assert run == ["check", *run[1:]]
    assert set(run[1:]) == tests - {"test-browser"}
    assert re.findall(r"`make ([a-z-]+)`", sentence) == run
