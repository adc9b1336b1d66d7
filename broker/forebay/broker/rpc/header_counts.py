"""Headers per record of a page that came from outside: at most 64, found out without a look at each record.

Every header takes two bytes at least, so headers of a record that have a length of one byte on the wire are few enough.
Where those of all records are equally long, a comparison of memory finds that.
"""

from __future__ import annotations

from typing import Any, Final

HEADERS_MAX: Final = 64
"""Headers of a record."""
_RUN: Final = 0x0A
_HEADERS: Final = 0x32
_LONG: Final = 0x80
"""From here on a length takes more than one byte."""
_OTHERS: Final = frozenset({0x0A, 0x12, 0x1A, 0x22, 0x2A})
"""The other columns of a run."""


def check_header_counts(body: bytes, page: Any) -> None:
    """Raise ValueError for a record with too many headers; ``page`` is the body, decoded."""
    if not any(run.headers for run in page.runs) or _are_few(body):
        return
    for run in page.runs:
        for headers in run.headers:
            count = len(headers.entries)
            if count > HEADERS_MAX:
                raise ValueError(f"a record has {count} headers: at most {HEADERS_MAX} are allowed")


def _are_few(body: bytes) -> bool:
    """Whether no record can have too many, by the lengths; False where that takes a closer look."""
    at = 0
    while at < len(body):
        if body[at] != _RUN:
            return False
        end, at = _extent(body, at + 1)
        while at < end:
            tag = body[at]
            if tag == _HEADERS and body[at + 1] < _LONG:
                at = _past_short(body, at, end)
                continue
            if tag not in _OTHERS:
                return False
            at, _ = _extent(body, at + 1)
    return True


def _past_short(body: bytes, at: int, end: int) -> int:
    """Go past headers with lengths of one byte; all at once where they are as long as those at ``at``."""
    step = body[at + 1] + 2
    rest = (end - at) // step
    if rest > 1 and rest * step == end - at:
        frames = bytes([_HEADERS]) * rest, bytes([step - 2]) * rest
        if (body[at:end:step], body[at + 1 : end : step]) == frames:
            return end
    while at < end and body[at] == _HEADERS:
        length = body[at + 1]
        if length >= _LONG:
            break
        at += length + 2
    return at


def _extent(body: bytes, at: int) -> tuple[int, int]:
    """End and start of the content whose length stands at ``at``, of a body that protobuf has read."""
    length = shift = 0
    while True:
        byte = body[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < _LONG:
            return at + length, at
        shift += 7
