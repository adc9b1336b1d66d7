"""A missing optional part is one sentence that can be pasted; a defect of ours is not taken for one."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Final

import pytest

from forebay.cli.extras import PACKAGE_EXTRAS, MissingExtra, needed_for, require
from forebay.packaging import install_command

ROOT: Final = Path(__file__).resolve().parents[3]


def distribution_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def fail_to_import(name: str) -> None:
    with needed_for("a broker", "broker"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("rocksdict", "broker"),
        ("pyarrow.parquet", "arrow"),
        ("forebay.deliver", "deliver"),
        ("rich.table", "cli"),
        ("psutil", "demo"),
        ("unheard_of", "broker"),
    ],
)
def test_the_extra_that_brings_the_module_is_named(module: str, extra: str) -> None:
    with pytest.raises(MissingExtra, match=re.escape(install_command(extra))) as missing:
        fail_to_import(module)

    assert "\n" not in str(missing.value)


def test_a_module_of_ours_that_is_not_there_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError):
        fail_to_import("forebay.broker.no_such_file")


def test_required_modules_that_are_missing_are_named_with_all_their_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("httpx2", "starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtra, match=re.escape(install_command("deliver,demo"))):
        require("the demo", ("httpx2", "psutil", "starlette", "uvicorn"))


def test_the_named_extra_installs_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed_by = packages_distributions()

    for module, extra in PACKAGE_EXTRAS.items():
        if not module.startswith("forebay"):
            direct = {distribution_name(line) for line in project["optional-dependencies"][extra]}
            indirect = {distribution_name(line) for name in direct for line in requires(name) or ()}
            assert {distribution_name(name) for name in installed_by[module]} & (direct | indirect), module
