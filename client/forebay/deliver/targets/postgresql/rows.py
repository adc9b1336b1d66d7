"""Rows of records in the text format of PostgreSQL's COPY: lines, with a tab between columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.deliver.batches.batch import Batch
from forebay.deliver.source import SourceRecord
from forebay.deliver.targets.postgresql.settings import Value

RECORD_COLUMNS: Final = ("incarnation", "partition", "record_offset", "event_time", "key", "value", "headers")
NULL: Final = "\\N"
ESCAPES: Final = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
"""Escapes of characters in a cell. The backslash is the first one: the others get one."""
_ESCAPED: Final = str.maketrans(ESCAPES)


class RowInvalid(Exception):
    """A record has no row. The text quotes no value of it."""


class FieldUnknown(RowInvalid):
    """A record has a field without a column."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows with the same columns."""

    columns: tuple[str, ...]
    lines: bytes
    """Lines of COPY's text format, in UTF-8, each with its newline."""


def record_rows(batch: Batch, value: Value) -> Iterator[Rows]:
    """Yield the rows of a table of records. Raises `RowInvalid` for a value that is no text."""
    of = _VALUES[value]
    position = f"{escaped(batch.incarnation)}\t{batch.partition}\t"
    lines = [
        f"{position}{record.offset}\t{_time(record)}\t{_key(record)}\t{of(record.value)}\t{_headers(record)}\n"
        for record in batch.records
    ]
    yield Rows(RECORD_COLUMNS, encoded("".join(lines)))


def encoded(text: str) -> bytes:
    """Return lines as bytes. Raises `RowInvalid` for a text that has no bytes."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RowInvalid("the value has an unpaired surrogate") from None


def is_plain(text: str) -> bool:
    """Return True if a text is a cell as it stands."""
    return not ("\\" in text or "\t" in text or "\n" in text or "\r" in text)


def escaped(text: str) -> str:
    """Return a text as a cell."""
    return text if is_plain(text) else text.translate(_ESCAPED)


def _text(value: bytes) -> str:
    try:
        return escaped(value.decode())
    except UnicodeDecodeError:
        raise RowInvalid("the value is not UTF-8") from None


def _bytea(value: bytes) -> str:
    return rf"\\x{value.hex()}"


def _key(record: SourceRecord) -> str:
    return NULL if record.key is None else _bytea(record.key)


def _time(record: SourceRecord) -> str:
    return NULL if record.event_time is None else record.event_time.isoformat()


def _headers(record: SourceRecord) -> str:
    """Return headers as a JSON array of names and texts; bytes that are no text are replaced."""
    if not record.headers:
        return NULL
    pairs = [
        [_without_zeros(name), _without_zeros(content.decode(errors="replace"))] for name, content in record.headers
    ]
    return escaped(json.dumps(pairs, ensure_ascii=False))


def _without_zeros(text: str) -> str:
    """Return a text that the type ``jsonb`` can hold."""
    return text.replace("\0", "\ufffd")


_VALUES: Final[dict[Value, Callable[[bytes], str]]] = {
    Value.BYTEA: _bytea,
    Value.TEXT: _text,
    Value.JSONB: _text,
}


def remaining(batch: Batch, delivered: Sequence[tuple[int, int]]) -> list[Batch]:
    """Return the parts of a batch that are in none of the ranges ``[first, end)``, in order."""
    parts = []
    rest: Batch | None = batch
    for first, end in sorted(delivered):
        if rest is None:
            break
        before = rest.below(first)
        if before is not None:
            parts.append(before)
        rest = rest.from_offset(end)
    return parts if rest is None else [*parts, rest]
