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
FIELDS_MAX: Final = 100
NAMES_MAX: Final = 4_096
"""Limits of the fields of an object and of the characters in their names: more take long to compile."""

_CONTROLS: Final = bytes(range(0x20))
"""Characters that a string has as escapes only."""

_STRING: Final = rb'"[^"]*+"'
_CONTENT: Final = rb'"([^"]*+)"'
_NUMBER: Final = rb"(?:-?[1-9][0-9]{0,4000}+|0|-0(?=[.eE]))(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
"""Number that decoding leaves as it is.

Decoding makes 0 of -0, and Python has a limit for the digits of an integer.
"""
_BOOLEAN: Final = rb"true|false"
_SIMPLE: Final = b"|".join([_STRING, _NUMBER, _BOOLEAN])


class Number(str):
    """Number with a fraction or an exponent, as it was written: a float has fewer digits."""

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
    int: Kind.NUMBER,
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
    if b"\\" in data or len(data.translate(None, _CONTROLS)) != len(data):
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
        self._open = [name for name, kind in kinds.items() if kind in _OPEN]
        self.is_open: Final = bool(self._open)
        """True if another object may tell more."""

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], found: Mapping[str, Any]) -> Self:
        """Return the pattern of a decoded object."""
        return cls(table, columns, {name: _kind(value) for name, value in found.items()})

    def extended(self, found: Mapping[str, Any]) -> Self:
        """Return the pattern that knows one more decoded object, with the same fields in the same order."""
        learned = {name: kind for name in self._open if (kind := _kind(found[name])) not in _OPEN}
        return type(self)(self._table, self._columns, {**self._kinds, **learned}) if learned else self

    @property
    def is_useful(self) -> bool:
        """False if no object could match."""
        return self._match is not None

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
    def _ordered(self) -> Callable[[Sequence[bytes]], Sequence[bytes]] | None:
        """Puts the cells into the order of the row; None if they are in it."""
        fields = [name for name in self._kinds if name in self._columns]
        return None if tuple(fields) == self._columns else itemgetter(*map(fields.index, self._columns))

    @cached_property
    def _match(self) -> Callable[[bytes], re.Match[bytes] | None] | None:
        """Matches an object; None if no object is known that could."""
        if len(self._kinds) > FIELDS_MAX or sum(map(len, self._kinds)) > NAMES_MAX:
            return None
        if Kind.NESTED in self._kinds.values() or not all(map(_is_plain, self._kinds)):
            return None
        fields = (b'"%s": ?(?:%s)' % (re.escape(name.encode()), self._value(name)) for name in self._kinds)
        return re.compile(rb"\{%s\}" % b", ?".join(fields)).fullmatch

    def _value(self, name: str) -> bytes:
        if name not in self._columns:
            return b"%s|null" % _SIMPLE
        cell = b"(%s)" % _SIMPLE if self._table.takes_json(name) else _CELLS[self._kinds[name]]
        return b"%s|null" % cell if self._table.takes_null(name) else cell


def _kind(value: Any) -> Kind:
    return _KINDS.get(type(value), Kind.NESTED)


def _is_plain(name: str) -> bool:
    """Return True for a name that has only one form without escapes."""
    return name.isprintable() and '"' not in name and "\\" not in name
