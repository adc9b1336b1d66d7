"""Rows one by one, for calls that carry plain records and for people: each is one JSON object.

The only module of the broker that decodes rows. Their decoder needs pyarrow, an extra: a broker without pages of rows
never loads it. A broker without pyarrow keeps and delivers such pages unchanged. Decoding takes time, so it runs in a
read thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias

from forebay.broker.core.errors import InvalidPage, RowsNotDecodable, SchemaNotFound
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SchemaRecord
from forebay.page.rows import encode_rows, rows_of
from forebay.state.numbers import plural

VERSION_HEADER: Final = "forebay.schema_version"
"""Header of a row: its schema version, in decimal digits."""

JSON_BYTES_MAX: Final = 28 << 20
"""Bound of the JSON of one page in a call for plain records."""
SHOWN_BYTES: Final = 4 << 20
"""Bytes of JSON up to which displayed rows are rendered completely."""
LARGE_ROWS_MAX: Final = 32
"""Number of displayed rows beyond that bound."""

SchemaOf: TypeAlias = Callable[[int], SchemaRecord]
"""Lookup of a schema version of the page's sink; raises ``SchemaNotFound``."""


UNREADABLE_HEADER: Final = "forebay.unreadable"
"""Header with the reason why a row cannot be decoded. The value of its record is empty."""


@dataclass(frozen=True, slots=True)
class CutRow:
    """Row that was cut out of its page."""

    offset: int
    value: bytes
    """JSON object of the row.

    For an undecodable row it is the body of a page with this row only, as it was published.
    """
    unreadable: str = ""
    """Reason why it cannot be decoded."""


@dataclass(frozen=True, slots=True)
class ShownRow:
    """Row for display."""

    offset: int
    text: str
    """Its JSON object, or the first characters of that."""
    size: int
    """Bytes of its JSON object; an upper bound if it was not rendered completely."""
    is_whole: bool
    unreadable: bool = False
    """Reason why the row cannot be decoded; empty if it can."""


def decoder() -> ModuleType:
    """Return ``forebay.arrow``, loaded on first use; raises ``RowsNotDecodable`` without pyarrow."""
    try:
        from forebay import arrow  # noqa: PLC0415 - heavy, an extra, and needed only for rows
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise RowsNotDecodable from missing
    return arrow


def json_rows(
    entry: Entry,
    body: Body,
    wanted: Sequence[Range],
    schema_of: SchemaOf,
    *,
    bytes_max: int = JSON_BYTES_MAX,
    whole_page_may_be_unreadable: bool = False,
) -> list[CutRow]:
    """Return the rows with offsets in ``wanted`` (sorted, disjoint), by offset.

    Raises ``RowsNotDecodable``, and ``InvalidPage`` for more than ``bytes_max`` of JSON, without rendering much more.
    If no row of the page can be decoded, it raises ``InvalidPage`` or ``SchemaNotFound``, unless
    ``whole_page_may_be_unreadable``.
    """
    arrow = decoder()

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
                        f"they become more than {bytes_max} bytes of JSON: read the page with Deliver or Replay"
                    )
                found += [CutRow(offset, value) for offset, value in enumerate(made, first + at)]
    return found


def shown_rows(entry: Entry, body: Body, within: Range, schema_of: SchemaOf, *, chars_max: int) -> Iterator[ShownRow]:
    """Yield the rows of a page whose offsets are in ``within``, up to ``chars_max`` characters of each.

    Of large rows only the first characters are rendered, and it ends after ``LARGE_ROWS_MAX`` rows. An undecodable row
    has its reason. Raises ``RowsNotDecodable``, and ``InvalidPage`` if no JSON can be rendered.
    """
    arrow = decoder()

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
    """Return the decodable rows of a page, and the ranges without any."""
    arrow = decoder()

    page = rows_of(body.data)
    schema = schema_of(page.schema_version).arrow_schema
    return arrow.readable_rows(schema, page.messages, entry.count, page.dictionary_columns)


def _decoded_if_possible(entry: Entry, body: Body, schema_of: SchemaOf) -> Any:
    """Return the same as ``_decoded``, but only unreadable rows for an undecodable page."""
    arrow = decoder()

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
    """Return the body of a page with one row of another page."""
    version = rows_of(body.data).schema_version
    return encode_rows(version, 1, messages)


@contextmanager
def _reading(entry: Entry) -> Iterator[None]:
    arrow = decoder()

    try:
        yield
    except arrow.UNREADABLE as broken:
        raise InvalidPage(
            f"the page at offset {entry.base} does not hold {entry.count} {plural(entry.count, 'row')} of its schema:"
            f" {broken}",
            base_offset=entry.base,
        ) from broken


def version_header(body: Body) -> tuple[str, bytes]:
    """Header with the schema version of the rows of a page."""
    return VERSION_HEADER, str(rows_of(body.data).schema_version).encode()
