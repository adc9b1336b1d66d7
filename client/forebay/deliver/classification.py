"""Classification of failures: temporary or permanent.

One table for HTTP statuses. Statuses that it does not contain are retried, and so are all exceptions: a wrong guess
then costs a duplicate and never a record.
"""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Final

from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.text import visible

REASON_CHARACTERS_MAX: Final = 500
"""Maximum length of a reason; the broker accepts 1,024 characters."""

_RETRY_AFTER_CHARACTERS_MAX: Final = 64
"""Maximum length of the header; an HTTP date has 29 characters."""

_RETRIED_CLIENT_ERRORS: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


def status(code: int, *, place: str, detail: str = "", retry_after_s: float | None = None) -> Outcome:
    """Return the outcome of a request for an HTTP status.

    - 2xx: delivered.
    - 4xx except 408, 425 and 429: rejected because of a record of the request.
    - Others, including 3xx: retried. A redirect is not followed, because that could send records and
      credentials to another host; the reason names it.

    ``place`` is host and path, without credentials or query; ``detail`` is the target's text, without
    payload.
    """
    if 200 <= code < 300:
        return Delivered()
    reason = shorten(f"HTTP {code}{_phrase(code)} from {place}{': ' + detail if detail else ''}")
    if 400 <= code < 500 and code not in _RETRIED_CLIENT_ERRORS:
        return Reject(reason)
    return Retry(reason, delay_s=retry_after_s)


def transport(error: Exception, *, place: str, quotes: bool = False) -> Retry:
    """Return the outcome for an exception of a transport, whose text never contains records.

    ``quotes``: the text may quote sent or received data, and is omitted.
    """
    text = "" if quotes else " ".join(str(error).split())
    name = type(error).__name__
    return Retry(shorten(f"{name}: {text} ({place})" if text else f"{name} ({place})"))


def exception(error: Exception) -> Retry:
    """Return the outcome for an unknown exception of a target.

    The reason names its class and the line that raised it; its text may quote a record and is omitted.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return Retry(shorten(f"{type(error).__qualname__}{where}"))


def answer(value: object, count: int) -> Outcome:
    """Return a target's answer for ``count`` records if it is valid, otherwise a retry with the reason."""
    if isinstance(value, Delivered):
        return value
    if not isinstance(value, Retry | Reject):
        return Retry(f"the target returned {type(value).__qualname__} instead of Delivered, Retry or Reject")
    if not 0 <= value.delivered < count:
        return Retry(f"the target returned a failure with delivered = {value.delivered}: must be below {count}")
    if isinstance(value, Retry) and not _is_delay(value.delay_s):
        return Retry("the target returned a delay_s that is not a number of seconds", delivered=value.delivered)
    return value


def retry_after(header: str | None, *, now: datetime, delay_max_s: float) -> float | None:
    """Return the delay of a ``Retry-After`` header in seconds, above 0 and up to ``delay_max_s``.

    The header has seconds or an HTTP date (RFC 9110, section 10.2.3). Returns ``None``, which applies the sink's
    back-off, if the header is missing or invalid, or requests no delay: 0 seconds, or a date in the past.
    """
    text = (header or "").strip()[:_RETRY_AFTER_CHARACTERS_MAX]
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    else:
        try:
            date = parsedate_to_datetime(text)
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    delay_s = min(seconds, delay_max_s)
    return delay_s if delay_s > 0 else None


def shorten(text: str) -> str:
    """Return ``text`` on one line, safe to print, and within `REASON_CHARACTERS_MAX`."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 1] + "…"


def _is_delay(delay_s: object) -> bool:
    return delay_s is None or (isinstance(delay_s, int | float) and isfinite(delay_s))


def _phrase(code: int) -> str:
    try:
        return f" {HTTPStatus(code).phrase}"
    except ValueError:
        return ""
