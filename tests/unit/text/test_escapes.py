"""Whatever a text holds, a terminal shows all of it and obeys none of it."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.text import is_safe, visible, visible_json

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)
FORBIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_every_character_of_a_forbidden_category_is_escaped() -> None:
    through = [
        f"{number:x}"
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)) in FORBIDDEN_CATEGORIES and is_safe(chr(number))
    ]

    assert through == []


@pytest.mark.parametrize("character", ["\u115f", "\u3164", "\ufe0f", "\U000e0101", "\u034f", "\u17b4"])
def test_invisible_characters_are_escaped_whatever_their_category(character: str) -> None:
    assert not is_safe(character)


@pytest.mark.parametrize(
    "text", ["", "plain [bold]x[/bold] :smile:", "Grüße, 日本語, العربية", "😀", "a\\nb", "e\u0301"]
)
def test_readable_text_is_left_unchanged(text: str) -> None:
    assert visible(text) == visible_json(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_the_rest_is_written_as_in_a_literal(text: str, shown: str) -> None:
    assert visible(text) == shown


@settings(deadline=None)
@given(ANY_TEXT)
def test_any_text_becomes_one_safe_line(text: str) -> None:
    shown = visible(text)

    assert is_safe(shown)
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown
    shown.encode()


@settings(deadline=None)
@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3)))
def test_json_keeps_its_meaning(value: object) -> None:
    shown = visible_json(json.dumps(value, ensure_ascii=False))

    assert is_safe(shown)
    assert json.loads(shown) == value


def test_indented_json_keeps_its_lines() -> None:
    shown = visible_json(json.dumps({"a": "\u202e", "b": [1]}, ensure_ascii=False, indent=1))

    assert len(shown.splitlines()) > 1
    assert json.loads(shown) == {"a": "\u202e", "b": [1]}
