"""Goes through answers that come in parts: each names where the next one begins, the last one names nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar


class Part(Protocol):
    """An answer with a place to go on from."""

    next_page_token: str


P = TypeVar("P", bound=Part)


def parts(ask: Callable[[str], P]) -> Iterator[P]:
    """Yield what ``ask(page_token)`` answers, from the beginning to the last part."""
    token = ""
    while True:
        part = ask(token)
        yield part
        token = part.next_page_token
        if not token:
            return
