"""The reference of Spark options has exactly the options of the code, with their defaults."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

from forebay.spark.options.checkpoint import CHECKPOINT_OPTIONS
from forebay.spark.options.credentials import CREDENTIAL_OPTIONS
from forebay.spark.options.read import read_options
from forebay.spark.options.write import READ_OPTIONS, WRITE_OPTIONS, write_options

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs/reference/spark-options.md").read_text(encoding="utf-8")
NAME: Final = re.compile(r"`([A-Za-z0-9_]+)`")
ELSEWHERE: Final = {*CREDENTIAL_OPTIONS, *CHECKPOINT_OPTIONS}
"""Options that several tables share: named by a prefix, or described on a page of their own."""

ATTRIBUTES: Final = {"row_format": "rows", "failOnDataLoss": "fail_on_data_loss"}
"""Attributes that are not named as their option."""


def section(title: str) -> str:
    """Return the text below a heading."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[tuple[list[str], str, str]]:
    """Return the names, the default and the description of each row of a table."""
    cells = [
        [cell.strip() for cell in line[1:-1].split("|")]
        for line in section(title).splitlines()
        if line.startswith("| ")
    ]
    return [(NAME.findall(one[0]), one[1].strip(), one[-1]) for one in cells if NAME.search(one[0])]


@pytest.mark.parametrize(
    ("title", "options"), [("Options of a write", WRITE_OPTIONS), ("Options of a read", READ_OPTIONS)]
)
def test_the_table_names_each_option_and_no_other(title: str, options: tuple[str, ...]) -> None:
    first = {_plain(name) for names, _, _ in rows(title) for name in names}
    known = {_plain(name) for name in options}
    described = {_plain(name) for name in NAME.findall(section(title))}

    assert first - known - {"resend"} == set(), "a name that is no option"
    assert known - described - {_plain(name) for name in ELSEWHERE} == set(), "an option without a description"


@pytest.mark.parametrize(
    ("title", "parsed"),
    [
        ("Options of a write", write_options({"sink": "orders"}, {})),
        ("Options of a read", read_options({"sink": "orders"}, {})),
    ],
)
def test_the_defaults_of_the_table_are_those_of_the_code(title: str, parsed: Any) -> None:
    compared = 0
    for names, default, _ in rows(title):
        for name in names:
            attribute = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
            value = getattr(parsed, ATTRIBUTES.get(name, attribute), None)
            if default and isinstance(value, bool | int | float | str):
                assert default.strip("`") == _shown(value), name
                compared += 1

    assert compared >= 2


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)
