"""Records as JSON text."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch
from forebay.deliver.targets import encoding as encode
from tests.support.targets.memory_source import MemoryRecord


def line(record: MemoryRecord) -> bytes:
    """Return a record's envelope."""
    (only,) = encode.envelopes(Batch("orders", "1f2e-3d", 3, (record,)))
    return only


def test_an_envelope_carries_key_place_time_and_everything_of_the_record() -> None:
    at = datetime(2024, 5, 1, 14, 0, 0, 250, tzinfo=timezone(timedelta(hours=2)))
    record = MemoryRecord(17, b'{"a": 1}', key=b"k", headers=[("t", b"x"), ("t", b"\xff")], event_time=at)

    assert json.loads(line(record)) == {
        "key": "1f2e-3d-3-17",
        "partition": 3,
        "offset": 17,
        "event_time": "2024-05-01T12:00:00.000250Z",
        "encoding": "json",
        "value": {"a": 1},
        "record_key": {"encoding": "text", "value": "k"},
        "headers": [
            {"name": "t", "encoding": "text", "value": "x"},
            {"name": "t", "encoding": "base64", "value": "/w=="},
        ],
    }


def test_absent_fields_of_a_record_are_null() -> None:
    fields = json.loads(line(MemoryRecord(0, b"1")))

    assert (fields["event_time"], fields["record_key"], fields["headers"]) == (None, None, [])


@pytest.mark.parametrize(
    ("value", "encoding", "read"),
    [
        (b'"text"', "json", "text"),
        (b"text", "text", "text"),
        (b"", "text", ""),
        (b"null", "json", None),
        (b"NaN", "text", "NaN"),
        (b"1 2", "text", "1 2"),
        (b"\xff\x00", "base64", "/wA="),
        (b'{"a":\r\n 1\n}', "json", {"a": 1}),
        ('"ü \u2028"'.encode(), "json", "ü \u2028"),
        (b"[" * 100_000, "text", "[" * 100_000),
        (b"9" * 5000, "text", "9" * 5000),
    ],
)
def test_a_value_is_json_or_text_or_bytes(value: bytes, encoding: str, read: object) -> None:
    fields = json.loads(line(MemoryRecord(0, value)))

    assert (fields["encoding"], fields["value"]) == (encoding, read)


@pytest.mark.parametrize("number", [b"1.10", b"1e400", b"12345678901234567890.123456789"])
def test_json_is_embedded_as_written(number: bytes) -> None:
    assert b'"value":%b,' % number in line(MemoryRecord(0, b" %b\n" % number))


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_every_value_round_trips_and_takes_one_line(value: bytes) -> None:
    text = line(MemoryRecord(0, value))
    fields = json.loads(text)

    assert b"\n" not in text
    if fields["encoding"] == "base64":
        assert base64.b64decode(fields["value"]) == value
    elif fields["encoding"] == "text":
        assert fields["value"].encode() == value
    else:
        assert fields["value"] == json.loads(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=10))
def test_json_goes_bare_as_it_is(value: object) -> None:
    text = encode.bare(json.dumps(value, indent=1).encode())

    assert b"\n" not in text
    assert json.loads(text) == value


def test_text_and_bytes_go_bare_as_strings() -> None:
    assert encode.bare(b"a b") == b'"a b"'
    assert encode.bare(b"\xff") == b'"/w=="'


def test_a_time_of_another_zone_is_reported_in_utc() -> None:
    assert b'"event_time":"2024-05-01T12:00:00.000000Z"' in line(
        MemoryRecord(0, b"1", event_time=datetime(2024, 5, 1, 12, tzinfo=UTC))
    )
