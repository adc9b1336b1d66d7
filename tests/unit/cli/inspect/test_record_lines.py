"""A record is one line, whatever it holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from forebay.cli.inspect.record_lines import VALUE_CHARACTERS_MAX, LineForm, line_of, write_gap, write_record
from forebay.client import DropReason, Gap, ReplayedRecord

AT = datetime(2026, 1, 2, tzinfo=UTC)
RECORD = ReplayedRecord(
    partition=1, offset=7, key=b"k", value=b'{"a": 1}', headers=(("h", b"\xff"),), event_time=None, accepted_at=AT
)


def test_a_line_names_place_key_and_value() -> None:
    line = line_of(RECORD)

    assert line.startswith("1:7  ")
    assert line.endswith('k  {"a": 1}')


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert line_of(RECORD._replace(key=None, value=b"a\nb\x1b[31m")).endswith("a\\nb\\x1b[31m")


def test_a_long_value_is_cut_and_its_length_shown() -> None:
    line = line_of(RECORD._replace(value=b"x" * 5000))

    assert len(line) < VALUE_CHARACTERS_MAX + 60
    assert line.endswith("… (5000 bytes)")


def test_an_object_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    write_record(RECORD, LineForm.JSON)

    assert json.loads(capsys.readouterr().out) == {
        "partition": 1,
        "offset": 7,
        "key": "k",
        "value": '{"a": 1}',
        "headers": [["h", "base64:/w=="]],
        "event_time": None,
        "accepted_at": "2026-01-02T00:00:00+00:00",
    }


def test_bare_values_are_the_bytes_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_record(RECORD._replace(value=b"\xff\x00"), LineForm.VALUES)

    assert capfdbinary.readouterr().out == b"\xff\x00\n"


def test_a_gap_is_an_object_or_a_line_beside_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    gap = Gap(partition=0, first_offset=3, last_offset=9, reason=DropReason.OVERFLOW, at=AT)

    write_gap(gap, LineForm.JSON)
    write_gap(gap, LineForm.TEXT)

    out, err = capsys.readouterr()
    assert json.loads(out)["gap"]["last_offset"] == 9
    assert err == "gap in partition 0: 3 to 9 were dropped (OVERFLOW)\n"
