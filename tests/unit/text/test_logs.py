"""Nobody who can write a text into a log can write a line into it."""

from __future__ import annotations

import io
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.text import SafeFormatter, is_safe, log_to_stderr
from forebay.text.logs import TRACE_MARK

FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
EVENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+ ")
FORGED = "x\n2026-01-01 00:00:00,000 INFO forebay forged"


def logged(message: str, *arguments: object, error: Exception | None = None) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter(FORM))
    logger = logging.Logger("forebay.test")
    logger.addHandler(handler)
    logger.error(message, *arguments, exc_info=error)
    return stream.getvalue().split("\n")[:-1]


@settings(deadline=None)
@given(st.text(st.characters(codec=None), max_size=100))
def test_an_event_is_one_line_whatever_it_quotes(text: str) -> None:
    (line,) = logged("reason=%s sink=%s", text, "orders")

    assert is_safe(line)
    assert EVENT.match(line)


@settings(deadline=None)
@given(st.text(st.characters(codec=None), max_size=100))
def test_the_text_of_an_exception_begins_no_event(text: str) -> None:
    lines = logged("failed", error=ValueError(text))

    assert all(is_safe(line) for line in lines)
    assert [bool(EVENT.match(line)) for line in lines] == [True] + [False] * (len(lines) - 1)


def test_a_forged_line_behind_an_exception_is_marked() -> None:
    lines = logged("failed", error=ValueError(FORGED))

    assert all(line.startswith(TRACE_MARK) for line in lines[1:])
    assert any("forged" in line for line in lines)


def test_a_handler_that_somebody_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = logging.NullHandler()
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [own])

    log_to_stderr("INFO", FORM)

    assert root.handlers == [own]


def test_without_a_handler_events_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level

    try:
        log_to_stderr("INFO", FORM)
        logging.getLogger("forebay.test").info("reason=%s", FORGED)
    finally:
        root.setLevel(level)

    assert len(capsys.readouterr().err.splitlines()) == 1
