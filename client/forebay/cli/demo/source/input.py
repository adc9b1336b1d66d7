"""Rows of a user's input file.

One function per format, selected by the file's extension. Each yields one plain dictionary per row, and holds no more
of the file in memory than its format requires. An error in the file raises `UnreadableInput` with file and position.
"""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from forebay.cli.extras import needed_for

Row = dict[str, Any]
"""Values by column or field name, as JSON can represent them."""

DOCUMENT_BYTES_MAX: Final = 512 << 20
"""Maximum size of a JSON document, which is parsed as a whole. Larger files must be JSON lines."""

FIELD_BYTES_MAX: Final = 8 << 20
"""Maximum size of a CSV field, the limit of a record."""


class UnreadableInput(Exception):
    """An input file cannot be read. Correct the file, or pass another one."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows of ``path`` in the format of its extension.

    Raises `UnreadableInput` for an unknown extension, a missing file, or invalid content.
    """
    check(path)
    return _READERS[path.suffix.lower()](path)


def check(path: Path) -> None:
    """Raise `UnreadableInput` for an unknown extension or a missing file, without reading it."""
    if path.suffix.lower() not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise UnreadableInput(path, f"unknown extension {path.suffix or '(none)'}: must be one of {known}")
    if not path.is_file():
        raise UnreadableInput(path, "the file does not exist")


def _csv(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV file; empty fields are null, because CSV has no other notation for it."""
    csv.field_size_limit(FIELD_BYTES_MAX)
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        reader = csv.DictReader(file, restkey="_more")
        try:
            for row in reader:
                yield {name: value if value != "" else None for name, value in row.items()}
        except csv.Error as error:
            raise UnreadableInput(path, f"line {reader.line_num}: {error}") from error


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield _row(json.loads(line))
                except ValueError as error:
                    raise UnreadableInput(path, f"line {number} is not JSON: {error}") from error


def _json(path: Path) -> Iterator[Row]:
    """Yield the rows of one document (array, GeoJSON collection, object), otherwise of JSON lines."""
    if path.stat().st_size > DOCUMENT_BYTES_MAX:
        raise UnreadableInput(
            path, f"a JSON document must be at most {DOCUMENT_BYTES_MAX} bytes: use JSON lines (.jsonl)"
        )
    text = path.read_text(encoding="utf-8-sig")
    try:
        document = json.loads(text)
    except ValueError as error:
        first, _, rest = text.lstrip().partition("\n")
        if rest.strip() and _is_json(first):
            yield from _json_lines(path)
            return
        raise UnreadableInput(path, f"not JSON: {error}") from error
    if isinstance(document, Mapping) and document.get("type") == "FeatureCollection":
        yield from map(_feature, document.get("features", ()))
    elif isinstance(document, Mapping) and document.get("type") == "Feature":
        yield _feature(document)
    elif isinstance(document, list):
        yield from map(_row, document)
    else:
        yield _row(document)


def _feature(feature: Mapping[str, Any]) -> Row:
    """Return a GeoJSON feature as a flat row: id, properties, geometry."""
    named = {"feature_id": feature["id"]} if "id" in feature else {}
    return named | dict(feature.get("properties") or {}) | {"geometry": feature.get("geometry")}


def _row(value: object) -> Row:
    return value if isinstance(value, dict) else {"value": value}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Iterator[Row]:
    with needed_for("reading Parquet", "spark"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from map(_plain, batch.to_pylist())
    except pa.ArrowException as error:
        raise UnreadableInput(path, f"not a Parquet file: {error}") from error


def _arrow(path: Path) -> Iterator[Row]:
    """Yield the rows of an Arrow IPC file (also Feather) or stream."""
    with needed_for("reading Arrow", "spark"):
        import pyarrow as pa
    try:
        with pa.memory_map(str(path)) as source:
            try:
                reader = pa.ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                batches = iter(pa.ipc.open_stream(source))
            else:
                batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
            for batch in batches:
                for start in range(0, batch.num_rows, 10_000):
                    yield from map(_plain, batch.slice(start, 10_000).to_pylist())
    except pa.ArrowException as error:
        raise UnreadableInput(path, f"neither an Arrow file nor an Arrow stream: {error}") from error


def _plain(row: Row) -> Row:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: object) -> object:
    """Return the JSON form of an Arrow value: bytes as base64, other types as text, NaN as null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else None
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {str(name): _plain_value(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain_value(item) for item in value]
        case _:
            return str(value)


_READERS: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    ".csv": _csv,
    ".json": _json,
    ".geojson": _json,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".arrows": _arrow,
    ".feather": _arrow,
    ".ipc": _arrow,
}
