"""Pagination of list calls: each answer has the token of the next one; the last answer has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar


class Part(Protocol):
    """Answer with a page token."""

    next_page_token: str


P = TypeVar("P", bound=Part)


def parts(ask: Callable[[str], P]) -> Iterator[P]:
    """Yield the answers of ``ask(page_token)``, from the first to the last."""
    token = ""
    while True:
        part = ask(token)
        yield part
        token = part.next_page_token
        if not token:
            return
