"""First characters of a row's JSON, for display, without a conversion of the whole row.

The text is a prefix of that of ``json_rows``. A row may hold a megabyte of control characters, an array of millions of
nulls or a thousand columns: everything after the last character shown costs nothing.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from forebay.arrow.expansion import RowsUnreadable
from forebay.arrow.json_rows import NULL, is_quoted, json_text
from forebay.arrow.kinds import is_bytes, is_list, is_text

_UTF8_BYTES_MAX: Final = 4
_KEY_CHARS_MAX: Final = 200
"""More than the text of a number, a time or a boolean has."""


def json_prefix(batch: pa.RecordBatch, row: int, chars_max: int) -> tuple[str, bool]:
    """Return up to ``chars_max`` characters of the JSON object of a row, and True if it is complete.

    Raises `RowsUnreadable`, and ``NoJsonForm`` for a type that has no JSON.
    """
    text = _Text(chars_max)
    try:
        text.members((field.name, batch.column(place)[row]) for place, field in enumerate(batch.schema))
    except _Full:
        return text.joined(), False
    except (pa.ArrowException, struct.error) as error:
        raise RowsUnreadable(f"no JSON can be made of the row: {error}") from error
    return text.joined(), True


class _Full(Exception):
    """The text has its maximum length."""


class _Text:
    """Text under construction, up to a maximum length."""

    def __init__(self, chars_max: int) -> None:
        self._parts: list[str] = []
        self._left = chars_max

    def joined(self) -> str:
        """Return the text."""
        return "".join(self._parts)

    def put(self, text: str) -> None:
        """Append text; raises ``_Full`` if part of it exceeds the maximum."""
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._left < 0:
            raise _Full

    def members(self, members: Iterable[tuple[str, Any]]) -> None:
        """Append an object: names and scalars."""
        before = "{"
        for name, scalar in members:
            self.put(f"{before}{json.dumps(name, ensure_ascii=False)}:")
            self.scalar(scalar)
            before = ","
        self.put("}" if before == "," else "{}")

    def scalar(self, scalar: pa.Scalar) -> None:
        """Append one value of any type."""
        kind = scalar.type
        if not scalar.is_valid:
            self.put(NULL)
        elif pa.types.is_dictionary(kind):
            self.scalar(scalar.value)
        elif pa.types.is_struct(kind):
            self.members((field.name, scalar[place]) for place, field in enumerate(kind))
        elif pa.types.is_map(kind):
            self._map(scalar)
        elif is_list(kind):
            self._list(scalar.values)
        elif is_text(kind):
            self._string(self._bytes(scalar, self._left * _UTF8_BYTES_MAX + _UTF8_BYTES_MAX).decode(errors="ignore"))
        elif is_bytes(kind):
            self.put(f'"{base64.b64encode(self._bytes(scalar, self._left // 4 * 3 + 6)).decode()}"')
        else:
            self.put(json_text(pa.repeat(scalar, 1))[0].as_py())

    def _bytes(self, scalar: pa.Scalar, size: int) -> bytes:
        return bytes(memoryview(scalar.as_buffer())[:size])

    def _string(self, text: str) -> None:
        self.put(json.dumps(text, ensure_ascii=False))

    def _list(self, values: pa.Array) -> None:
        self.put("[")
        for place in range(len(values)):
            if place:
                self.put(",")
            self.scalar(values[place])
        self.put("]")

    def _map(self, scalar: pa.Scalar) -> None:
        self.put("{")
        keys, items = scalar.values.flatten()
        for place in range(len(keys)):
            if place:
                self.put(",")
            self._key(keys[place])
            self.put(":")
            self.scalar(items[place])
        self.put("}")

    def _key(self, key: pa.Scalar) -> None:
        if key.is_valid and is_quoted(key.type):
            self.scalar(key)
            return
        is_nested = pa.types.is_nested(key.type)
        own = _Text(self._left if is_nested else self._left + _KEY_CHARS_MAX)
        try:
            own.scalar(key)
        except _Full:
            self._string(own.joined())
            raise
        text = own.joined()
        self._string(text if is_nested else text.strip('"'))
