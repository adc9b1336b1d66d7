"""Whatever a text holds, it is a text on the page."""

from __future__ import annotations

from forebay.broker.console.pages.page import Page
from forebay.broker.console.render import Renderer, coded

EVIL = "<script>alert(1)</script>\x1b[31m \u202e\u0085 \"'&"


def test_foreign_text_is_escaped_for_html_and_its_control_characters_are_shown() -> None:
    page = Page("sinks.html", EVIL, _listing(EVIL), EVIL, f"/x{EVIL}", EVIL)

    found = Renderer(lambda: EVIL).document(page, is_live=True)

    assert "<script>alert" not in found
    assert not {"\x1b", "\u202e", "\u0085"} & set(found)
    assert r"\x1b" in found


def test_an_error_says_what_it_was_given_as_text() -> None:
    assert "<script>alert" not in Renderer(str).failure(404, EVIL)


def test_a_sentence_has_code_and_nothing_of_html() -> None:
    assert coded("`<b>` is `on`") == "<code>&lt;b&gt;</code> is <code>on</code>"


def test_the_last_and_the_first_microsecond_of_the_calendar_are_shown() -> None:
    last, first = (_shown_at(at_us) for at_us in (253_402_300_799_999_999, -62_135_596_800_000_000))

    assert '<time datetime="9999-12-31T23:59:59.999999+00:00">9999-12-31 23:59:59 UTC</time>' in last
    assert '<time datetime="0001-01-01T00:00:00+00:00">' in first


def _shown_at(at_us: int) -> str:
    letter = {"at_us": at_us, "partition": 0, "offset": 0, "origin_partition": 0, "origin_offset": 0, "attempts": 1}
    group = {"error": "", "count": 1, "letters": [letter]}
    data = {"sink": "orders", "count": 1, "count_max": 1, "more": False, "groups": [group]}
    return Renderer(str).content(Page("letters.html", "", data, "", "/"))


def _listing(order: str) -> dict[str, object]:
    return {
        "total": 0, "at_us": 0, "order": order, "first": 0, "sinks": [], "previous": order, "next": order,
    }  # fmt: skip
