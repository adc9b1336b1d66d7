"""Which failures pass, and which are final.

One table for statuses. Whatever it does not name is retried, and so is every exception:
a wrong guess then costs a duplicate and never a record.
"""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from holdfast.deliver.outcome import Delivered, Outcome, Reject, Retry

REASON_CHARACTERS_MAX: Final = 500
"""Longest reason handed on; the broker takes 1,024 characters."""

_RETRIED_CLIENT_ERRORS: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


def status(code: int, *, place: str, detail: str = "", retry_after_s: float | None = None) -> Outcome:
    """Return what an HTTP status means for the request it answers.

    - 2xx: taken.
    - 4xx except 408, 425 and 429: rejected, for some record of the request.
    - everything else, 3xx among it: later. A redirect is not followed, since that could carry records and
      credentials to another place; the reason says that it is one.

    ``place`` is host and path, without credentials or query; ``detail`` is what the target said, without
    payload.
    """
    if 200 <= code < 300:
        return Delivered()
    reason = shorten(f"HTTP {code}{_phrase(code)} from {place}{': ' + detail if detail else ''}")
    if 400 <= code < 500 and code not in _RETRIED_CLIENT_ERRORS:
        return Reject(reason)
    return Retry(reason, delay_s=retry_after_s)


def transport(error: Exception, *, place: str) -> Retry:
    """Return what an exception of a transport means, whose text speaks of the connection and never of records."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return Retry(shorten(f"{name}: {text} ({place})" if text else f"{name} ({place})"))


def foreign(error: Exception) -> Retry:
    """Return what an exception out of a target means that nobody knows.

    The reason names its class and the line that raised it; its text may quote a record and is left out.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return Retry(shorten(f"{type(error).__qualname__}{where}"))


def answer(value: object, count: int) -> Outcome:
    """Return a target's answer for ``count`` records if it makes sense, and otherwise a retry that says
    why not.
    """
    if isinstance(value, Delivered):
        return value
    if not isinstance(value, Retry | Reject):
        return Retry(f"the target returned {type(value).__qualname__} instead of Delivered, Retry or Reject")
    if not 0 <= value.delivered < count:
        return Retry(f"the target said that it took {value.delivered} of {count} records and then failed")
    return value


def retry_after(header: str | None, *, now: datetime, delay_max_s: float) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, 0 to ``delay_max_s``.

    It holds seconds or an HTTP date (RFC 9110, section 10.2.3). ``None`` if there is none or it makes no
    sense.
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), delay_max_s)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max((date - now).total_seconds(), 0.0), delay_max_s)


def shorten(text: str) -> str:
    """Return ``text`` on one line and within `REASON_CHARACTERS_MAX`."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 1] + "…"


def _phrase(code: int) -> str:
    try:
        return f" {HTTPStatus(code).phrase}"
    except ValueError:
        return ""
