"""A missing optional part is one sentence that can be pasted; a defect of ours is not taken for one."""

from __future__ import annotations

import re

import pytest

from forebay.cli.extras import MissingExtra, needed_for
from forebay.packaging import install_command


def fail_to_import(name: str) -> None:
    with needed_for("a broker", "broker"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("rocksdict", "broker"),
        ("pyarrow.parquet", "spark"),
        ("forebay.deliver", "deliver"),
        ("rich.table", "cli"),
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
