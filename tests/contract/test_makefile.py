"""The Makefile has a rule with a recipe for every target that it declares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TEXT: Final = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
MOVED: Final = "moved"
"""A prerequisite that is never there: it needs no rule."""


def test_every_declared_target_has_a_recipe() -> None:
    declared = {name for line in re.findall(r"^\.PHONY:(.*)$", TEXT, re.MULTILINE) for name in line.split()}
    with_recipe = set(re.findall(r"^([a-z][a-z-]*):(?!=).*\n\t", TEXT, re.MULTILINE))
    aliases = set(re.findall(r"^([a-z][a-z-]*): \.\S+ ", TEXT, re.MULTILINE))

    assert declared - with_recipe - aliases == {MOVED}


def test_the_contributing_page_names_targets_that_exist() -> None:
    page = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page, re.MULTILINE))

    assert named
    assert named <= set(re.findall(r"^([a-z][a-z-]*):", TEXT, re.MULTILINE))
