"""Rows of JSON objects in the text format of PostgreSQL's COPY.

Most objects match the pattern of those before, and are not decoded: see `object_pattern`. Of the others a column is
converted at once, as its cells mostly have one type; a driver converts cell by cell.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from forebay.client.values.records import Encoding
from forebay.deliver.batches.batch import Batch
from forebay.deliver.targets.postgresql.object_pattern import Number, ObjectPattern, is_simple
from forebay.deliver.targets.postgresql.rows import NULL, RowInvalid, Rows, encoded, escaped, is_plain
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table

ROWS_AT_ONCE: Final = 1_000
"""Rows that are converted at once: more of them fit into no cache of a processor."""


class _Form:
    """Objects with the same fields in the same order."""

    def __init__(self, table: Table, fields: tuple[str, ...], unknown: UnknownFields) -> None:
        self.fields = fields
        self.columns = table.columns_of(fields, unknown)
        self._table = table
        self._pattern: ObjectPattern | None = None

    def pattern_with(self, found: Mapping[str, Any]) -> ObjectPattern | None:
        """Return the pattern, which knows one more object; None if it could match none."""
        known = self._pattern
        known = ObjectPattern.of(self._table, self.columns, found) if known is None else known.extended(found)
        self._pattern = known
        return known if known.is_useful else None


class _Run:
    """Consecutive rows with the same columns."""

    def __init__(self, table: Table, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._table = table
        self._lines: list[bytes | None] = []
        """None for an object, whose cells are converted with those of the others."""
        self._cells: list[tuple[Any, ...]] = []

    def add_line(self, line: bytes) -> None:
        self._lines.append(line)

    def add_object(self, fields: tuple[str, ...], found: Mapping[str, Any]) -> None:
        self._lines.append(None)
        columns = self.columns
        self._cells.append(tuple(found.values()) if fields == columns else tuple([found[name] for name in columns]))

    def rows(self) -> Iterator[Rows]:
        """Yield the rows, if there are any, and forget them."""
        if not self._lines:
            return
        text = encoded("\n".join(self._converted())) if self._cells else b""
        if len(self._cells) < len(self._lines):
            converted = iter(text.split(b"\n"))
            text = b"\n".join([next(converted) if line is None else line for line in self._lines])
        yield Rows(self.columns, text + b"\n")
        self._lines, self._cells = [], []

    def _converted(self) -> Iterator[str]:
        """Yield the lines of the objects."""
        texts = []
        for name, values in zip(self.columns, zip(*self._cells, strict=True), strict=True):
            if not self._table.takes_null(name) and None in values:
                raise RowInvalid(f"the field {name[:60]!r} of the key is null")
            texts.append(_column(values, is_json=self._table.takes_json(name)))
        return map("\t".join, zip(*texts, strict=True))


def json_rows(batch: Batch, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of JSON objects, by the columns that they have: the others get their defaults.

    Raises `RowInvalid` for a value that is no JSON object or has no key, and `FieldUnknown` for a field without a
    column unless ``unknown`` ones are ignored.
    """
    forms: dict[tuple[str, ...], _Form] = {}
    form: _Form | None = None
    pattern: ObjectPattern | None = None
    run = _Run(table, ())
    for block, binary in _blocks(batch, table):
        if binary:  # a pattern decodes nothing
            pattern = None
        are_simple = pattern is not None and is_simple(b"".join(block))
        for value in block:
            if pattern is not None and (are_simple or is_simple(value)):
                line = pattern.line(value)
                if line is not None:
                    run.add_line(line)
                    continue
            found = _with_bytes(_object(value), binary) if binary else _object(value)
            fields = tuple(found)
            if form is not None and fields == form.fields:
                if not binary and (pattern is None or pattern.is_open):
                    pattern = form.pattern_with(found)
            else:  # a pattern is worth its costs for consecutive objects only
                pattern = None
                form = forms.get(fields) or _Form(table, fields, unknown)
                forms[fields] = form
                if form.columns != run.columns:
                    yield from run.rows()
                    run = _Run(table, form.columns)
            run.add_object(fields, found)
        yield from run.rows()


def _blocks(batch: Batch, table: Table) -> Iterator[tuple[Sequence[bytes], frozenset[str]]]:
    """Yield the values of rows that are converted at once, and the fields in them that are bytes."""
    values = batch.values
    parts = [(len(values), frozenset[str]())]
    if table.binary and any(page.encoding is Encoding.ARROW for page in batch.pages):
        # It needs pyarrow, an optional extra, which has read the rows before.
        from forebay.deliver.targets.postgresql.binary_fields import binary_fields  # noqa: PLC0415

        by_fields = groupby(batch.pages, lambda page: binary_fields(page, table))
        parts = [(sum(map(len, pages)), fields) for fields, pages in by_fields]
    begin = 0
    for count, fields in parts:
        end = begin + count
        for first in range(begin, end, ROWS_AT_ONCE):
            yield values[first : min(end, first + ROWS_AT_ONCE)], fields
        begin = end


def _column(values: Sequence[Any], *, is_json: bool) -> Sequence[str]:
    """Return the cells of a column."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(map(str, values))
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


def _with_bytes(found: dict[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """Return an object with base64 in some fields replaced by the text that PostgreSQL has for bytes."""
    return found | {name: rf"\x{b64decode(found[name]).hex()}" for name in fields if found[name] is not None}


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


_DECODER: Final = json.JSONDecoder(parse_float=Number, parse_constant=_no_number)
