"""Rows of JSON objects in the text format of PostgreSQL's COPY.

Most objects match the pattern of those before, and are not decoded: see `object_pattern`. Of the others a column is
converted at once, as its cells mostly have one type; a driver converts cell by cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from forebay.deliver.batches.batch import Batch
from forebay.deliver.targets.postgresql.object_pattern import Number, ObjectPattern, is_simple
from forebay.deliver.targets.postgresql.rows import NULL, RowInvalid, Rows, encoded, escaped, is_plain
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table

ROWS_AT_ONCE: Final = 1_000
"""Rows that are converted at once: more of them fit into no cache of a processor."""


class _Form:
    """Objects with the same fields in the same order."""

    def __init__(self, table: Table, found: Mapping[str, Any], unknown: UnknownFields) -> None:
        self.fields = tuple(found)
        self.columns = table.columns_of(self.fields, unknown)
        self.pattern = ObjectPattern.of(table, self.columns, found)


class _Run:
    """Consecutive rows with the same columns."""

    def __init__(self, table: Table, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._table = table
        self._lines: list[bytes] = []
        self._cells: list[tuple[Any, ...]] = []
        """Of the last objects, which are not among the lines yet."""

    def add_line(self, line: bytes) -> None:
        if self._cells:
            self._convert()
        self._lines.append(line)

    def add_object(self, found: Mapping[str, Any]) -> None:
        self._cells.append(tuple([found[name] for name in self.columns]))

    def rows(self) -> Iterator[Rows]:
        """Yield the rows, if there are any, and forget them."""
        if self._cells:
            self._convert()
        if self._lines:
            yield Rows(self.columns, b"\n".join([*self._lines, b""]))
            self._lines = []

    def _convert(self) -> None:
        texts = []
        for name, values in zip(self.columns, zip(*self._cells, strict=True), strict=True):
            if None in values and not self._table.takes_null(name):
                raise RowInvalid(f"the field {name[:60]!r} of the key is null")
            texts.append(_column(values, is_json=self._table.takes_json(name)))
        self._lines.append(encoded("\n".join(map("\t".join, zip(*texts, strict=True)))))
        self._cells = []


def json_rows(batch: Batch, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of JSON objects, by the columns that they have: the others get their defaults.

    Raises `RowInvalid` for a value that is no JSON object or has no key, and `FieldUnknown` for a field without a
    column unless ``unknown`` ones are ignored.
    """
    forms: dict[tuple[str, ...], _Form] = {}
    form: _Form | None = None
    run = _Run(table, ())
    values = batch.values
    for first in range(0, len(values), ROWS_AT_ONCE):
        block = values[first : first + ROWS_AT_ONCE]
        are_simple = is_simple(b"".join(block))
        for value in block:
            line = form.pattern.line(value) if form is not None and (are_simple or is_simple(value)) else None
            if line is not None:
                run.add_line(line)
                continue
            found = _object(value)
            fields = tuple(found)
            form = forms.get(fields)
            if form is None:
                form = forms[fields] = _Form(table, found, unknown)
            form.pattern = form.pattern.extended(found)
            if form.columns != run.columns:
                yield from run.rows()
                run = _Run(table, form.columns)
            run.add_object(found)
        yield from run.rows()


def _column(values: Sequence[Any], *, is_json: bool) -> Sequence[str]:
    """Return the cells of a column."""
    kinds = set(map(type, values))
    if kinds == {Number}:
        return values
    if kinds == {str} and not is_json:
        return values if is_plain("".join(values)) else [escaped(value) for value in values]
    return [NULL if value is None else escaped(_cell(value, is_json=is_json)) for value in values]


def _object(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode()
        if text[:1] == "{":
            found, end = _DECODER.raw_decode(text)
            if end != len(text) and text[end:].strip(" \t\n\r"):
                raise RowInvalid("the value is not JSON")
        else:
            found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise RowInvalid("the value is not JSON") from None
    if not isinstance(found, dict):
        raise RowInvalid("the value is no JSON object")
    return found


def _cell(value: Any, *, is_json: bool) -> str:
    """Return a JSON value as the text of a column."""
    if is_json or isinstance(value, dict | list):
        try:
            return _json(value)
        except RecursionError:
            raise RowInvalid("the value is nested too deeply") from None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _json(value: Any) -> str:
    """Return a decoded value as JSON, numbers with the digits that they had."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return f"{{{', '.join([f'{_json(name)}: {_json(found)}' for name, found in value.items()])}}}"
    if isinstance(value, list):
        return f"[{', '.join([_json(found) for found in value])}]"
    return json.dumps(value, ensure_ascii=False)


def _no_number(constant: str) -> float:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_no_number)
