"""Bound of the headers per record, checked without decoding each record.

Every header takes two bytes at least, so headers of a record that have a length of one byte on the wire are few enough.
Where those of all records are equally long, a comparison of memory finds that.
"""

from __future__ import annotations

from typing import Any, Final

from forebay.page.format import COLUMN_TAGS, HEADERS_MAX, HEADERS_TAG, RUN_TAG, MalformedPage
from forebay.page.varint import extent_at

_LONG: Final = 0x80
"""Lowest length that takes more than one byte."""


def check_header_counts(body: bytes, page: Any) -> None:
    """Raise ``MalformedPage`` for a record with too many headers; ``page`` is the body, decoded."""
    if not any(run.headers for run in page.runs) or _are_few(body):
        return
    for run in page.runs:
        for headers in run.headers:
            count = len(headers.entries)
            if count > HEADERS_MAX:
                raise MalformedPage(f"a record has {count} headers: at most {HEADERS_MAX} are allowed")


def _are_few(body: bytes) -> bool:
    """Return True if the lengths prove that no record has too many headers; False if they do not."""
    at = 0
    while at < len(body):
        if body[at] != RUN_TAG:
            return False
        run = extent_at(body, at + 1)
        if run is None:
            return False
        at, end = run
        while at < end:
            tag = body[at]
            if tag == HEADERS_TAG and body[at + 1] < _LONG:
                at = _past_short(body, at, end)
                continue
            if tag not in COLUMN_TAGS:
                return False
            column = extent_at(body, at + 1)
            if column is None:
                return False
            at = column[1]
    return True


def _past_short(body: bytes, at: int, end: int) -> int:
    """Skip headers with lengths of one byte; in one step if they are as long as those at ``at``."""
    step = body[at + 1] + 2
    rest = (end - at) // step
    if rest > 1 and rest * step == end - at:
        frames = bytes([HEADERS_TAG]) * rest, bytes([step - 2]) * rest
        if (body[at:end:step], body[at + 1 : end : step]) == frames:
            return end
    while at < end and body[at] == HEADERS_TAG:
        length = body[at + 1]
        if length >= _LONG:
            break
        at += length + 2
    return at
