"""Text from outside that is written into a log cannot forge a line of it."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.text import JsonFormatter, SafeFormatter, event_of, fields_of, is_safe, log_to_stderr
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


def test_a_forged_line_after_an_exception_is_marked() -> None:
    lines = logged("failed", error=ValueError(FORGED))

    assert all(line.startswith(TRACE_MARK) for line in lines[1:])
    assert any("forged" in line for line in lines)


def test_a_handler_that_is_already_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
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


def record(template: str, *args: object) -> logging.LogRecord:
    """An event."""
    return logging.LogRecord("forebay.test", logging.WARNING, "x.py", 1, template, args, None)


@pytest.mark.parametrize(
    ("template", "args", "event", "fields"),
    [
        ("broker has stopped", (), "broker has stopped", {}),
        (
            "target failed sink=%s partition=%d reason=%r after_s=%.1f whole=%s",
            ("orders", 3, "a=%s b", 2.54, True),
            "target failed",
            {"sink": "orders", "partition": 3, "reason": "a=%s b", "after_s": 2.54, "whole": True},
        ),
        ("reload failed: %s", ("x=1",), "reload failed", {}),
        ("used=%d%% of=%s", (50, ValueError("x")), "", {"used": 50, "of": "x"}),
        ("sink=%s size=%d", ("orders",), "", {}),
        ("values=%(a)s", ({"a": 1},), "values=%(a)s", {}),
    ],
)
def test_the_fields_of_an_event_are_its_arguments(
    template: str, args: tuple[object, ...], event: str, fields: dict[str, object]
) -> None:
    found = record(template, *args)

    assert fields_of(found) == fields
    if fields or not args:
        assert event_of(found) == event


def test_an_event_in_json_is_one_line_with_its_fields_and_the_current_span() -> None:
    failed = record("target failed sink=%s reason=%r", "orders", FORGED)

    line = JsonFormatter(lambda: ("a" * 32, "b" * 16)).format(failed)

    document = json.loads(line)
    assert "\n" not in line
    assert is_safe(line)
    assert document["fields"] == {"sink": "orders", "reason": FORGED}
    assert (document["level"], document["logger"], document["event"]) == ("WARNING", "forebay.test", "target failed")
    assert (document["trace_id"], document["span_id"]) == ("a" * 32, "b" * 16)
    assert document["time"].endswith("+00:00")


def test_an_exception_in_json_stays_on_the_line_and_ids_are_left_out_without_a_span() -> None:
    failed = record("failed")
    failed.exc_info = (ValueError, ValueError(FORGED), None)

    line = JsonFormatter().format(failed)

    assert len(line.splitlines()) == 1
    assert "ValueError" in json.loads(line)["exception"]
    assert "trace_id" not in json.loads(line)
