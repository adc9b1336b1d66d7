"""Values of the client become JSON and table cells without losing anything that matters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.cli.output import bytes_text, cell_text, plain, seconds_text, text_of, write_json, write_table
from holdfast.client import DropReason


@dataclass(frozen=True, slots=True)
class Inner:
    payload: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class Outer:
    reason: DropReason
    inner: tuple[Inner, ...]
    counts: dict[DropReason, int]


def test_a_nested_value_becomes_objects_lists_and_text() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = Outer(DropReason.OVERFLOW, (Inner(b"a", at),), {DropReason.CORRUPT: 2})

    assert plain(value) == {
        "reason": "OVERFLOW",
        "inner": [{"payload": "a", "at": "2026-01-02T03:04:05+00:00"}],
        "counts": {"CORRUPT": 2},
    }


def test_bytes_that_are_no_text_are_marked_base64() -> None:
    assert text_of("ü".encode()) == "ü"
    assert text_of(b"\xff\x00") == "base64:/wA="


def test_durations_and_paths_have_a_form_too() -> None:
    assert plain([timedelta(seconds=1.5), Path("a/b"), None, True]) == [1.5, "a/b", None, True]


def test_a_json_document_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"a": ["x\ny"]})

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"a": ["x\ny"]}


def test_a_table_shows_markup_in_data_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    write_table("title", ("name", "count"), [("[red]x[/red]", 1234)])

    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert "1,234" in out


@pytest.mark.parametrize(
    ("cell", "shown"), [(None, ""), (True, "yes"), (1234567, "1,234,567"), (0.12345, "0.123"), (b"k", "k"), ("x", "x")]
)
def test_a_cell_reads_well(cell: object, shown: str) -> None:
    assert cell_text(cell) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 20, "1.5 GiB"), (3 << 40, "3.0 TiB")]
)
def test_a_number_of_bytes_has_a_unit(count: int, shown: str) -> None:
    assert bytes_text(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 ms"), (0.35, "350 ms"), (12.0, "12.0 s"), (200.0, "3 min 20 s"), (7500.0, "2 h 5 min")],
)
def test_a_duration_has_a_unit(seconds: float, shown: str) -> None:
    assert seconds_text(seconds) == shown
