"""Whatever a text holds, it is a text on the page."""

from __future__ import annotations

from forebay.broker.console.history import Day, Rates
from forebay.broker.console.pages.page import Page
from forebay.broker.console.render import Renderer, day, spark
from forebay.state.flow import Flow

EVIL = "<script>alert(1)</script>\x1b[31m \u202e\u0085 \"'&"


def test_foreign_text_is_escaped_for_html_and_its_control_characters_are_shown() -> None:
    page = Page("sinks.html", EVIL, _listing(EVIL), EVIL, f"/x{EVIL}", EVIL)

    found = Renderer(lambda: EVIL).document(page, is_live=True)

    assert "<script>alert" not in found
    assert not {"\x1b", "\u202e", "\u0085"} & set(found)
    assert r"\x1b" in found


def test_an_error_says_what_it_was_given_as_text() -> None:
    assert "<script>alert" not in Renderer(str).failure(404, EVIL)


def test_a_line_of_numbers_says_its_last_and_its_highest_one() -> None:
    found = spark([1.0, 5.0, 2.0], 'Waiting "<records>"')

    assert "now 2, at most 5 in 3 samples" in found
    assert "<records>" not in found
    assert spark([], "nothing") == spark([1.0], "one") == ""
    assert "NaN" not in spark([0.0, 0.0], "zeros")


def test_a_day_names_its_highest_backlog_and_marks_what_needed_attention() -> None:
    last = Day()
    for minutes, waiting, state in ((0, 5, Flow.FLOWING), (5, 900, Flow.BACKING_OFF), (10, 30, Flow.FLOWING)):
        last.add(60.0 * minutes, Rates(), waiting, state)

    found = day(last.spans(), "<orders>")

    assert "at most 900 waiting records in the last 15 min; backing off for 5 min" in found
    assert found.count("<rect") == found.count('class="backing-off"') == 1
    assert "<orders>" not in found
    assert day((), "nothing") == ""


def _listing(order: str) -> dict[str, object]:
    return {
        "total": 0, "at_us": 0, "order": order, "first": 0, "sinks": [], "previous": order, "next": order,
    }  # fmt: skip
