"""Pattern of JSON objects that have the same fields in the same order, and simple values.

Numbers, strings without escapes, true, false and null are simple. COPY's text format has the same text for them, so one
match finds all cells of a row, and nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Self

from forebay.deliver.targets.postgresql.rows import NULL
from forebay.deliver.targets.postgresql.table import Table

_NULL: Final = NULL.encode()
_NOT_SIMPLE: Final = bytes(range(0x20)) + b"\\"
"""An escape, and what a string may hold as an escape only."""

_STRING: Final = rb'"[^"]*+"'
_CONTENT: Final = rb'"([^"]*+)"'
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_BOOLEAN: Final = rb"true|false"
_SIMPLE: Final = b"|".join([_STRING, _NUMBER, _BOOLEAN])


class Number(str):
    """Number as it was written: a float has fewer digits."""

    __slots__ = ()


class Kind(Enum):
    """Kind of the values that a field had so far."""

    NULL = "null"
    NESTED = "object or array"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"


_KINDS: Final[Mapping[type, Kind]] = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    Number: Kind.NUMBER,
    str: Kind.STRING,
}
_OPEN: Final = frozenset({Kind.NULL, Kind.NESTED})
"""Kinds that tell nothing of the simple values that a field may have."""

_CELLS: Final[Mapping[Kind, bytes]] = {
    Kind.NULL: b"(%s)" % _BOOLEAN,
    Kind.BOOLEAN: b"(%s)" % _BOOLEAN,
    Kind.NUMBER: b"(%s)" % _NUMBER,
    Kind.STRING: _CONTENT,
}


def is_simple(data: bytes) -> bool:
    """Return True if data are UTF-8 without escapes and control characters."""
    if len(data.translate(None, _NOT_SIMPLE)) != len(data):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class ObjectPattern:
    """The pattern, as far as the objects so far tell it."""

    def __init__(self, table: Table, columns: Sequence[str], kinds: Mapping[str, Kind]) -> None:
        """``columns`` are in the order of the row, ``kinds`` in that of the fields of an object."""
        self._table = table
        self._columns = tuple(columns)
        self._kinds = kinds
        fields = [name for name in kinds if name in self._columns]
        self._ordered = None if tuple(fields) == self._columns else itemgetter(*map(fields.index, self._columns))
        """Puts the cells into the order of the row."""

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], found: Mapping[str, Any]) -> Self:
        """Return the pattern of a decoded object."""
        return cls(table, columns, _kinds(found))

    def extended(self, found: Mapping[str, Any]) -> Self:
        """Return the pattern that knows one more decoded object, with the same fields in the same order."""
        kinds = {name: new if self._kinds[name] in _OPEN else self._kinds[name] for name, new in _kinds(found).items()}
        return self if kinds == self._kinds else type(self)(self._table, self._columns, kinds)

    def line(self, value: bytes) -> bytes | None:
        """Return the line of an object, without its newline; None if it does not match.

        ``value`` must be simple: see `is_simple`.
        """
        match = self._match(value) if self._match is not None else None
        if match is None:
            return None
        cells = match.groups(_NULL)
        return b"\t".join(cells if self._ordered is None else self._ordered(cells))

    @cached_property
    def _match(self) -> Callable[[bytes], re.Match[bytes] | None] | None:
        """Matches an object; None if no object is known that could."""
        if Kind.NESTED in self._kinds.values() or not all(map(_is_plain, self._kinds)):
            return None
        fields = (b'"%s": ?(?:%s)' % (re.escape(name.encode()), self._value(name)) for name in self._kinds)
        return re.compile(rb"\{%s\}" % b", ?".join(fields)).fullmatch

    def _value(self, name: str) -> bytes:
        if name not in self._columns:
            return b"%s|null" % _SIMPLE
        cell = b"(%s)" % _SIMPLE if self._table.takes_json(name) else _CELLS[self._kinds[name]]
        return b"%s|null" % cell if self._table.takes_null(name) else cell


def _kinds(found: Mapping[str, Any]) -> dict[str, Kind]:
    return {name: _KINDS.get(type(value), Kind.NESTED) for name, value in found.items()}


def _is_plain(name: str) -> bool:
    """Return True for a name that has only one form without escapes."""
    return name.isprintable() and '"' not in name and "\\" not in name
