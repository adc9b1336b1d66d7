"""Files of every known kind become the same rows; what is wrong with a file is said with its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forebay.cli.demo.source.input import UnreadableInput, rows


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_file_yields_its_rows_with_empty_fields_as_null(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'name,cost,remark\n"B, ""Bob""",,fine\nC,3,"two\nlines"\n')

    assert list(rows(path)) == [
        {"name": 'B, "Bob"', "cost": None, "remark": "fine"},
        {"name": "C", "cost": "3", "remark": "two\nlines"},
    ]


def test_a_json_array_yields_its_elements_and_wraps_what_is_no_object(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '[{"a": 1}, 2]')

    assert list(rows(path)) == [{"a": 1}, {"value": 2}]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_json_lines_yield_one_row_per_line_under_any_of_their_names(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, '{"a": 1}\n\n{"a": 2}\n')

    assert list(rows(path)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["a.json", "a.geojson"])
def test_a_geojson_collection_yields_its_features_flat(tmp_path: Path, name: str) -> None:
    point = {"type": "Point", "coordinates": [1.0, 2.0]}
    features = [
        {"type": "Feature", "id": "x", "properties": {"mag": 2}, "geometry": point},
        {"type": "Feature", "properties": None, "geometry": None},
    ]
    path = write(tmp_path, name, json.dumps({"type": "FeatureCollection", "features": features}))

    assert list(rows(path)) == [{"feature_id": "x", "mag": 2, "geometry": point}, {"geometry": None}]


TABLE = pa.table(
    {
        "number": [1, None],
        "ratio": [0.5, float("nan")],
        "raw": [b"\x00\xff", b""],
        "price": [Decimal("1.20"), None],
        "at": [datetime(2026, 1, 2, tzinfo=UTC), None],
        "tags": [["a"], []],
    }
)
ROWS = [
    {
        "number": 1,
        "ratio": 0.5,
        "raw": "AP8=",
        "price": "1.20",
        "at": "2026-01-02 00:00:00+00:00",
        "tags": ["a"],
    },
    {"number": None, "ratio": None, "raw": "", "price": None, "at": None, "tags": []},
]


def test_a_parquet_file_yields_what_json_can_hold(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")

    assert list(rows(tmp_path / "a.parquet")) == ROWS


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_an_arrow_file_or_stream_yields_what_json_can_hold(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.arrow"
    open_writer = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with open_writer(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE)

    assert list(rows(path)) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", "x", "unknown extension"),
        ("a.jsonl", '{"a": 1}\n{"a":', "line 2 is not JSON"),
        ("a.json", "{", "not JSON"),
        ("a.parquet", "x", "not a Parquet file"),
        ("a.arrow", "not arrow at all", "neither an Arrow file nor an Arrow stream"),
    ],
)
def test_unreadable_input_is_refused_with_the_file_and_the_problem(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    path = write(tmp_path, name, content)

    with pytest.raises(UnreadableInput, match=problem) as refusal:
        list(rows(path))

    assert refusal.value.path == path


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="does not exist"):
        rows(tmp_path / "a.csv")
