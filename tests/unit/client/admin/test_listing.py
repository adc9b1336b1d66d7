"""Lists that come in parts are gone through to their end."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.client.admin.listing import parts


@dataclass
class Part:
    number: int
    next_page_token: str


def test_each_part_is_asked_for_with_the_token_of_the_one_before() -> None:
    answers = {"": Part(0, "a"), "a": Part(1, "b"), "b": Part(2, "")}

    assert [part.number for part in parts(answers.__getitem__)] == [0, 1, 2]


def test_no_part_is_asked_for_before_it_is_needed() -> None:
    asked: list[str] = []

    def ask(token: str) -> Part:
        asked.append(token)
        return Part(0, "more")

    next(parts(ask))

    assert asked == [""]
