"""Temporary and permanent failures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.deliver import Delivered, Reject, Retry, classification

NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("code", [200, 201, 202, 204, 207, 299])
def test_2xx_is_taken(code: int) -> None:
    assert classification.status(code, place="http://h/p") == Delivered()


@pytest.mark.parametrize("code", [408, 425, 429, 500, 501, 502, 503, 504, 599, 300, 301, 302, 304, 307, 308, 199, 600])
def test_a_transient_or_unexpected_status_is_retried(code: int) -> None:
    outcome = classification.status(code, place="http://h/p", retry_after_s=3.0)

    assert isinstance(outcome, Retry)
    assert outcome.delay_s == 3.0
    assert outcome.reason.startswith(f"HTTP {code}")


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451, 499])
def test_other_4xx_is_rejected_with_status_and_place(code: int) -> None:
    outcome = classification.status(code, place="https://example.org/orders", detail="No such field")

    assert isinstance(outcome, Reject)
    assert not outcome.exact
    assert outcome.reason.startswith(f"HTTP {code}")
    assert outcome.reason.endswith("from https://example.org/orders: No such field")


def test_the_reason_of_an_unknown_exception_names_its_place_and_not_its_text() -> None:
    with pytest.raises(ValueError, match="a payload") as raised:
        int("a payload")

    outcome = classification.exception(raised.value)

    assert outcome.reason.startswith("ValueError at ")
    assert "test_classification.py:" in outcome.reason
    assert "payload" not in outcome.reason


def test_the_reason_of_a_transport_error_says_what_and_where() -> None:
    outcome = classification.transport(ConnectionRefusedError(111, "Connection refused"), place="http://h/p")

    assert outcome == Retry("ConnectionRefusedError: [Errno 111] Connection refused (http://h/p)")


@pytest.mark.parametrize("value", [None, True, "ok", 200])
def test_a_return_value_that_is_no_outcome_is_retried(value: object) -> None:
    outcome = classification.answer(value, 3)

    assert isinstance(outcome, Retry)
    assert type(value).__qualname__ in outcome.reason


@pytest.mark.parametrize("value", [Retry("x", delivered=3), Retry("x", delivered=-1), Reject("x", delivered=4)])
def test_an_outcome_for_records_that_were_not_sent_is_retried_whole(value: Retry | Reject) -> None:
    outcome = classification.answer(value, 3)

    assert isinstance(outcome, Retry)
    assert outcome.delivered == 0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("999999999999999999999", 600.0),
        ("Wed, 01 May 2024 12:00:30 GMT", 30.0),
        ("Wed, 01 May 2024 11:00:00 GMT", None),
        ("Wed, 01 May 2024 14:00:00 +0200", None),
        ("Fri, 01 May 2099 12:00:00 GMT", 600.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("1.5", None),
        ("²", None),
        ("10000 Feb 1994 23:59:60 9999999999999999999999", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 600.0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 600.0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_within_its_bound(header: str | None, seconds: float | None) -> None:
    assert classification.retry_after(header, now=NOW, delay_max_s=600.0) == seconds


PARTS = (
    *("Mon,", "Tue", "01", "31", "99", "9" * 22, "Jan", "Feb", "1994", "0000", "10000", "23:59:60", "99:99:99"),
    *("GMT", "+0000", "-9999", "+99999999", "Z", ",", "-", "(", ")", '"', "a.b.c", "1.2.3", "-5", "1e9", "²", "٣"),
    *("Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359"),
)


@settings(deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(PARTS), max_size=7).map(" ".join))
def test_no_retry_after_header_is_too_strange(header: str) -> None:
    seconds = classification.retry_after(header, now=NOW, delay_max_s=600.0)

    assert seconds is None or 0.0 < seconds <= 600.0


def test_a_bound_of_nothing_leaves_the_pause_to_the_back_off() -> None:
    assert classification.retry_after("5", now=NOW, delay_max_s=0.0) is None


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), "5"])
def test_a_delay_that_is_no_number_of_seconds_is_left_to_the_back_off(delay: float) -> None:
    outcome = classification.answer(Retry("later", delay_s=delay, delivered=1), 3)

    assert isinstance(outcome, Retry)
    assert (outcome.delay_s, outcome.delivered) == (None, 1)


def test_a_reason_holds_nothing_that_acts() -> None:
    assert classification.shorten("a\x1b[2J\u202eb") == "a\\x1b[2J\\u202eb"


def test_a_reason_is_one_line_and_bounded() -> None:
    reason = classification.shorten("a\nb  c" + "x" * 1000)

    assert reason.startswith("a b c")
    assert len(reason) == classification.REASON_CHARACTERS_MAX
