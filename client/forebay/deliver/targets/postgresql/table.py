"""Table that rows of JSON objects are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from forebay.deliver.targets.postgresql.rows import FieldUnknown, RowInvalid
from forebay.deliver.targets.postgresql.settings import UnknownFields

_JSON: Final = frozenset({"json", "jsonb"})


@dataclass(frozen=True)
class Table:
    """Columns of a table."""

    types: Mapping[str, str]
    """Type of each column, by its name, in the order of the table."""

    keys: tuple[str, ...] = ()
    """Columns that each row must have; rows with equal ones replace each other."""

    nulls_equal: bool = False
    """A null is a value of a key: two of them are equal. Otherwise a row with one has no key."""

    @cached_property
    def binary(self) -> frozenset[str]:
        """Columns of bytes."""
        return frozenset(name for name, kind in self.types.items() if kind == "bytea")

    def takes_json(self, column: str) -> bool:
        """Return True for a column that any JSON value is written to as it is."""
        return self.types[column] in _JSON

    def takes_null(self, column: str) -> bool:
        """Return False for a column of a key that must have a value."""
        return self.nulls_equal or column not in self.keys

    def columns_of(self, fields: Sequence[str], unknown: UnknownFields) -> tuple[str, ...]:
        """Return the fields of an object that have a column, in the order of the table.

        Raises `RowInvalid` for an object that has none, or not those of the key, and `FieldUnknown` for a field without
        a column unless ``unknown`` ones are ignored.
        """
        columns = tuple(name for name in self.types if name in fields)
        if len(columns) < len(fields) and unknown is UnknownFields.REJECT:
            more = sorted(set(fields) - set(columns))
            raise FieldUnknown(f"no column for {len(more)} of the fields, such as {more[0][:60]!r}")
        if not columns:
            raise RowInvalid("no field has a column")
        missing = [name for name in self.keys if name not in columns]
        if missing:
            raise RowInvalid(f"the field {missing[0][:60]!r} of the key is missing")
        return columns
