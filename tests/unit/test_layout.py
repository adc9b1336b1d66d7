"""Four source folders are one namespace, and the light parts stay light.

Each part has a test of its own: an editable install that lost a source root fails by name.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE_ROOTS: Final = ("protos", "broker", "client", "spark_integration")
HEAVY: Final = (
    "pyarrow",
    "rocksdict",
    "pyspark",
    "opentelemetry.sdk",
    "pydantic",
    "httpx2",
)


@pytest.mark.parametrize(
    ("part", "source_root"),
    [
        ("forebay.v1", "protos"),
        ("forebay.errors", "protos"),
        ("forebay.shards", "protos"),
        ("forebay.state", "protos"),
        ("forebay.broker", "broker"),
        ("forebay.client", "client"),
        ("forebay.deliver", "client"),
        ("forebay.arrow", "client"),
        ("forebay.cli", "client"),
        ("forebay.spark", "spark_integration"),
        ("pyspark_forebay", "spark_integration"),
    ],
)
def test_each_part_is_imported_from_its_source_root(part: str, source_root: str) -> None:
    module = importlib.import_module(part)

    assert module.__file__ == str(ROOT / source_root / part.replace(".", "/") / "__init__.py")


def test_no_package_owns_the_namespace() -> None:
    owners = [root for root in SOURCE_ROOTS if (ROOT / root / "forebay" / "__init__.py").exists()]

    assert owners == []
    assert getattr(importlib.import_module("forebay"), "__file__", None) is None


@pytest.mark.parametrize("part", ["forebay.v1", "forebay.client"])
def test_a_publisher_does_not_load_what_only_a_broker_or_spark_needs(part: str) -> None:
    program = f"import sys, {part}; print(*(name for name in {HEAVY!r} if name in sys.modules))"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == []


def test_the_spark_part_does_not_load_the_storage_engine() -> None:
    program = "import sys, forebay.spark; print('rocksdict' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False"]
