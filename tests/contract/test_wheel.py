"""The wheel that users install has every part, and its base is the client alone."""

from __future__ import annotations

import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.parametrize(
    "part",
    [
        "forebay/v1",
        "forebay/errors",
        "forebay/state",
        "forebay/broker",
        "forebay/client",
        "forebay/deliver",
        "forebay/cli",
        "forebay/arrow",
        "forebay/process",
        "forebay/spark",
        "pyspark_forebay",
    ],
)
def test_the_wheel_has_each_part(names: list[str], part: str) -> None:
    assert f"{part}/__init__.py" in names


def test_the_wheel_adds_two_names_and_owns_no_namespace(names: list[str]) -> None:
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}

    assert top == {"forebay", "pyspark_forebay"}
    assert "forebay/__init__.py" not in names


def test_the_wheel_carries_the_schema_and_its_types(names: list[str]) -> None:
    assert "forebay/v1/descriptors.binpb" in names
    for part in ("v1", "arrow", "broker", "client", "deliver", "errors", "process", "spark"):
        assert f"forebay/{part}/py.typed" in names


@pytest.fixture(scope="module")
def metadata(wheel: Path, names: list[str]) -> Message:
    [path] = [name for name in names if name.endswith(".dist-info/METADATA")]
    with ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(path).decode())


def test_the_metadata_name_the_addresses_of_the_project(metadata: Message) -> None:
    addresses = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))

    assert set(addresses) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(address.startswith("https://") for address in addresses.values())


def test_the_wheel_carries_the_full_text_of_its_license(wheel: Path, names: list[str]) -> None:
    [path] = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    with ZipFile(wheel) as archive:
        text = archive.read(path).decode()

    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_base_needs_neither_a_storage_engine_nor_spark(metadata: Message) -> None:
    base = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]

    assert sorted(re.split(r"[^\w-]", line)[0] for line in base) == [
        "googleapis-common-protos",
        "grpcio",
        "opentelemetry-api",
        "protobuf",
    ]
