"""Values of the client become JSON and table cells without losing anything that matters."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.table import Table

from forebay.cli.output import (
    Whole,
    bytes_text,
    cell_text,
    console_for,
    list_of,
    plain,
    seconds_text,
    text_of,
    write_bytes_line,
    write_json,
    write_line,
    write_message,
    write_table,
    write_text,
)
from forebay.client import DropReason
from forebay.text import is_safe


@dataclass(frozen=True, slots=True)
class Inner:
    payload: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class Outer:
    reason: DropReason
    inner: tuple[Inner, ...]
    counts: dict[DropReason, int]


def test_sentences_are_broken_between_words_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text("one two\x1bthree")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "14")
    write_text("one two-a three\x1bfour")

    assert capsys.readouterr().out == "one two\\x1bthree\none two-a\nthree\\x1bfour\n"


def test_a_table_without_heads_has_no_rule(capsys: pytest.CaptureFixture[str]) -> None:
    write_table("facts", ("", ""), [("state", "serving")])

    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["facts", "state    serving"]


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


ANY_TEXT = st.text(st.characters(codec=None), max_size=60)


@given(text=ANY_TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_a_text_holds_no_output_obeys_it_or_gets_a_line_by_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_line(text)
    write_message(text)
    write_json({text: [text, text.encode(errors="surrogatepass")]})
    written = capsys.readouterr()

    assert len(written.out.splitlines()) == 2
    assert len(written.err.splitlines()) == 1
    assert all(is_safe(line) for line in [*written.out.splitlines(), *written.err.splitlines()])


@given(text=ANY_TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_a_table_has_the_rows_that_it_was_given_and_nothing_that_acts(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(text[:20], ("name",), [(text[:40],), (text[:40].encode(errors="surrogatepass"),)])
    out = capsys.readouterr().out

    assert all(is_safe(line) for line in out.split("\n"))


@pytest.mark.parametrize("text", ["[red]x[/red]", ":smile:", "[/]", "\\[b]", "[link=http://x]y[/link]", "a\\"])
def test_markup_and_emoji_codes_in_titles_heads_and_cells_mean_nothing(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(text, (text,), [(text,)])

    assert capsys.readouterr().out.count(text) == 3


def test_bare_values_are_made_visible_at_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_bytes_line(b"\x1b[2J\n\xe2\x80\xae")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_bytes_line(b"\x1b[2J\n\xe2\x80\xae")

    assert capfdbinary.readouterr().out == b"\x1b[2J\n\xe2\x80\xae\n" + b"\\x1b[2J\\n\\u202e\n"


WIDE_ROWS = [
    ("a-name-that-is-longer-than-the-others", 1_234_567_890, "", 7, "2026-11-23 11:00:00Z"),
    ("short", 1, "", 12, "2026-11-23 11:00:00Z"),
]
WIDE_COLUMNS = ("sink", "records", "detail", "pages", "created")


def lines_of(table: Table, width: int) -> list[str]:
    console = console_for(table, width)
    caption, table.caption = table.caption, None
    with console.capture() as captured:
        console.print(table)
    table.caption = caption
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


def test_a_list_hides_optional_columns_in_their_order_and_names_them() -> None:
    table = list_of("", WIDE_COLUMNS, WIDE_ROWS, optional=("detail", "created", "pages"), width=50)

    assert lines_of(table, 50) == [
        " sink                             records   pages",
        " ────────────────────────────────────────────────",
        " a-name-that-is-longer-t…   1,234,567,890       7",
        " short                                  1      12",
    ]
    assert str(table.caption) == "hidden for lack of width: created; a wider terminal or -o json shows them"


def test_a_list_hides_a_column_without_values_first_and_in_silence() -> None:
    table = list_of("", WIDE_COLUMNS, WIDE_ROWS, optional=("created", "detail"), width=75)

    assert [str(column.header) for column in table.columns] == ["sink", "records", "pages", "created"]
    assert table.caption is None


def test_wide_characters_count_twice_where_columns_are_hidden() -> None:
    table = list_of("", ("value", "n"), [("日" * 20, 1)], optional=("n",), legible=40, width=42)

    assert [str(column.header) for column in table.columns] == ["value"]


def test_a_list_never_cuts_a_number_or_an_id() -> None:
    rows = [(Whole("20261126T003241467697Z-1d19ef52"), 1_234_567_890, "a reason of some words")]

    shown = lines_of(list_of("", ("id", "records", "reason"), rows, width=40), 40)

    assert "20261126T003241467697Z-1d19ef52" in shown[-1]
    assert "1,234,567,890" in shown[-1]
    assert shown[-1].endswith("…")
    assert len(shown) == 3


@pytest.mark.parametrize("value", ["x" * 300, "日" * 150, "é" * 300])
def test_a_list_that_no_terminal_shows_is_whole(value: str) -> None:
    shown = lines_of(list_of("", ("value", "n"), [(value, 1)], optional=("n",)), 200)

    assert value in "\n".join(shown)
