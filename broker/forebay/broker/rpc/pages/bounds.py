"""Bounds of a page's content, checked before protobuf decodes it."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.errors import InvalidRequest, RequestTooLarge
from forebay.broker.rpc.requests.bounds import Bounds
from forebay.broker.rpc.requests.scan import check
from forebay.broker.rpc.requests.shapes import Shape, shape_of
from forebay.page import count, rows
from forebay.page.format import PAGE_BYTES_MAX, PAGE_FRAMING_BYTES, RUNS_MAX, Bytes, MalformedPage
from forebay.page.rows import DICTIONARY_COLUMNS_MAX, RowsBody
from forebay.v1 import record_pb2

_SHAPE: Final = shape_of(record_pb2.RecordPage.DESCRIPTOR)
_ROWS_SHAPE: Final = shape_of(record_pb2.ArrowPage.DESCRIPTOR)
_ROWS: Final = Bounds(bytes_max=1 << 30, elements_max=1 << 30, counts={"dictionary_columns": DICTIONARY_COLUMNS_MAX})
"""Bounds of a page of rows."""
_PAGE: Final = Bounds(bytes_max=1 << 30, elements_max=1 << 30, counts={"runs": RUNS_MAX})
"""Bounds of a page with several records.

Its headers take at most as much memory as a page of a megabyte may.
"""
_RECORD: Final = Bounds(bytes_max=1 << 30, elements_max=1_024)
"""Of a page with a single record, which may be larger."""


def count_records(body: Bytes) -> int:
    """Return the records in the body of a page. Raises ``MalformedPage``."""
    return count.count_records(body, check_size=_check_size)


def bounded_rows(body: Bytes) -> RowsBody:
    """Return the parts of a body with rows. Raises ``MalformedPage``."""
    return rows.rows_of(body, check_size=_check_rows)


def _check_size(body: bytes) -> None:
    """Raise ``MalformedPage`` for a body that takes much more memory than it has bytes."""
    _check(body, _SHAPE, _PAGE if len(body) <= PAGE_BYTES_MAX + PAGE_FRAMING_BYTES else _RECORD)


def _check_rows(body: bytes) -> None:
    _check(body, _ROWS_SHAPE, _ROWS)


def _check(body: bytes, shape: Shape, bounds: Bounds) -> None:
    try:
        check(body, shape, bounds)
    except RequestTooLarge as error:
        found, bound = error.facts["found"], error.facts["bound"]
        raise MalformedPage(f"it has {found} or more {error.facts['field']}: at most {bound} are allowed") from error
    except InvalidRequest as error:
        raise MalformedPage("it cannot be parsed") from error
