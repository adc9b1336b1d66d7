"""Rows one by one, for calls that carry plain records and for people: each is one JSON object.

The only place of the broker that looks into rows, and the only one that imports pyarrow: a broker without pages of rows
never loads it. Decoding takes time, so it is done in a read thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from forebay.broker.core.errors import InvalidPage, SchemaNotFound
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SchemaRecord
from forebay.page.rows import encode_rows, rows_of

VERSION_HEADER: Final = "forebay.schema_version"
"""A row's header: the version of the sink's schema that it has, in decimal digits."""

JSON_BYTES_MAX: Final = 28 << 20
"""Bytes of JSON that a call for plain records takes from one page."""
SHOWN_BYTES: Final = 4 << 20
"""Bytes of JSON up to which rows that are shown are made as a whole."""
LARGE_ROWS_MAX: Final = 32
"""Rows that are shown of those that become more."""

SchemaOf: TypeAlias = Callable[[int], SchemaRecord]
"""A version of the schema of the sink that the page is in; raises ``SchemaNotFound``."""


UNREADABLE_HEADER: Final = "forebay.unreadable"
"""Header of a record that stands for a row which cannot be decoded: why. Its value is empty."""


@dataclass(frozen=True, slots=True)
class CutRow:
    """A row by itself."""

    offset: int
    value: bytes
    """JSON object of the row.

    For a row that cannot be decoded it is the body of a page with this row only, as it was published.
    """
    unreadable: str = ""
    """Why it cannot be decoded."""


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row as a person is shown it."""

    offset: int
    text: str
    """Its JSON object, or the first characters of that."""
    size: int
    """Bytes of its JSON object; of one that was not made as a whole, at most so many."""
    is_whole: bool
    unreadable: bool = False
    """It cannot be decoded, and the text says why."""


def json_rows(
    entry: Entry,
    body: Body,
    wanted: Sequence[Range],
    schema_of: SchemaOf,
    *,
    bytes_max: int = JSON_BYTES_MAX,
    whole_page_may_be_unreadable: bool = False,
) -> list[CutRow]:
    """The rows whose offsets are in ``wanted`` (sorted, apart), by offset.

    Raises ``InvalidPage`` for rows that become more than ``bytes_max`` of JSON; little more than that is made. Where
    no row of the page can be decoded, ``InvalidPage`` and ``SchemaNotFound`` too, unless that may be so.
    """
    from forebay import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    found: list[CutRow] = []
    left = bytes_max
    with _reading(entry):
        decoded = (_decoded_if_possible if whole_page_may_be_unreadable else _decoded)(entry, body, schema_of)
        for first, rows, why in _slices(decoded, entry, wanted):
            if why:
                alone = b"" if whole_page_may_be_unreadable else _alone(body, decoded.row_messages(first - entry.base))
                left -= len(alone)
                found.append(CutRow(first, alone, why))
                continue
            for at, piece, size in arrow.json_pieces(rows):
                made = [] if size > max(left, arrow.PIECE_BYTES) else arrow.json_objects(piece)
                left -= sum(map(len, made)) if made else size
                if left < 0:
                    raise arrow.RowsUnreadable(
                        f"they become more than {bytes_max} bytes of JSON: take the page as it is"
                    )
                found += [CutRow(offset, value) for offset, value in enumerate(made, first + at)]
    return found


def shown_rows(entry: Entry, body: Body, within: Range, schema_of: SchemaOf, *, chars_max: int) -> Iterator[ShownRow]:
    """Yield the rows of a page whose offsets are in ``within``, up to ``chars_max`` characters of each.

    Where they become much JSON, only the first characters of a row are made, and it ends after ``LARGE_ROWS_MAX``
    rows. A row that cannot be decoded says why. Raises ``InvalidPage`` where no JSON can be made.
    """
    from forebay import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    with _reading(entry):
        decoded = _decoded_if_possible(entry, body, schema_of)
        for first, rows, why in _slices(decoded, entry, [within]):
            if why:
                yield ShownRow(first, why[:chars_max], 0, is_whole=True, unreadable=True)
                continue
            if arrow.batch_bytes(rows) <= SHOWN_BYTES:
                for offset, value in enumerate(arrow.json_objects(rows), first):
                    text = value.decode()
                    yield ShownRow(offset, text[:chars_max], len(value), len(text) <= chars_max)
                continue
            for place in range(min(rows.num_rows, LARGE_ROWS_MAX)):
                text, is_whole = arrow.json_prefix(rows, place, chars_max)
                size = len(text.encode()) if is_whole else arrow.batch_bytes(rows.slice(place, 1))
                yield ShownRow(first + place, text, size, is_whole)
            if rows.num_rows > LARGE_ROWS_MAX:
                return


def _decoded(entry: Entry, body: Body, schema_of: SchemaOf) -> Any:
    """The rows of a page that can be read, and where there are none."""
    from forebay import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    page = rows_of(body.data)
    schema = schema_of(page.schema_version).arrow_schema
    return arrow.readable_rows(schema, page.messages, entry.count, page.dictionary_columns)


def _decoded_if_possible(entry: Entry, body: Body, schema_of: SchemaOf) -> Any:
    """As ``_decoded``, but a page of which nothing can be read has unreadable rows only."""
    from forebay import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    try:
        decoded = _decoded(entry, body, schema_of)
        arrow.json_objects(decoded.batch.slice(0, 0))  # raises for a type that has no JSON form
        return decoded
    except (SchemaNotFound, *arrow.UNREADABLE) as cause:
        return arrow.nothing_readable(entry.count, str(cause))


def _slices(decoded: Any, entry: Entry, wanted: Sequence[Range]) -> Iterator[tuple[int, Any, str]]:
    """Yield first offset and rows of every non-empty range; an unreadable row alone, with the reason."""
    for part in wanted:
        at, end = max(part.first, entry.base) - entry.base, min(part.end, entry.end) - entry.base
        for wrong in decoded.unreadable:
            if at < min(wrong.first, end):
                yield entry.base + at, decoded.between(at, min(wrong.first, end)), ""
            for place in range(max(at, wrong.first), min(wrong.end, end)):
                yield entry.base + place, None, wrong.reason
            at = max(at, min(wrong.end, end))
        if at < end:
            yield entry.base + at, decoded.between(at, end), ""


def _alone(body: Body, messages: bytes) -> bytes:
    """The body of a page of one row of another one."""
    version = rows_of(body.data).schema_version
    return encode_rows(version, 1, messages)


@contextmanager
def _reading(entry: Entry) -> Iterator[None]:
    from forebay import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    try:
        yield
    except arrow.UNREADABLE as broken:
        raise InvalidPage(
            f"the page at offset {entry.base} does not hold {entry.count} rows of its schema: {broken}",
            base_offset=entry.base,
        ) from broken


def version_header(body: Body) -> tuple[str, bytes]:
    """The header that says which schema the rows of a page have."""
    return VERSION_HEADER, str(rows_of(body.data).schema_version).encode()
