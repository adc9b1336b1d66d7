"""Headers of a request of the HTTP target: the names that a user may set, and the secrets in values.

Names differ by case only in their text, so that a header is never sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from forebay.deliver.targets.options import SECRET_NAME

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A token (RFC 9110, section 5.6.2)."""

_OF_THE_TARGET: Final = "it is set by the target"
_OF_THE_CONNECTION: Final = "it is of the connection, and would break the request"
_RESERVED: Final[Mapping[str, str]] = {
    "authorization": "set authorization_env to the name of a variable instead",
    "content-type": "set content_type instead",
    "idempotency-key": _OF_THE_TARGET,
    "traceparent": _OF_THE_TARGET,
    "tracestate": _OF_THE_TARGET,
    "content-length": _OF_THE_CONNECTION,
    "transfer-encoding": _OF_THE_CONNECTION,
    "upgrade": _OF_THE_CONNECTION,
}
"""Reason that a user does not set a header, by its name in lower case."""

_RESERVED_PREFIX: Final = "forebay-"
_SECRET_CHARACTERS_MIN: Final = 4
_SCHEMES: Final = frozenset({"Basic", "Bearer", "Digest", "Negotiate", "Token", "ApiKey"})
"""Parts of credentials that are not secret."""
_HIDDEN: Final = "[credential]"


def problem_of_name(name: str) -> str:
    """Return the reason that a user may not set a header; empty if it is allowed."""
    if not _NAME.fullmatch(name):
        return "must be a valid header name"
    lower = name.lower()
    return _OF_THE_TARGET if lower.startswith(_RESERVED_PREFIX) else _RESERVED.get(lower, "")


def problem_of_value(value: str) -> str:
    """Return the reason that a value is invalid in a header, without quoting it; empty if it is valid."""
    if value.isascii() and all(character.isprintable() or character == "\t" for character in value):
        return ""
    return "contains a control or non-ASCII character, which is not allowed in a header"


def merged(*parts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return all headers by name; of those whose names differ by case at most, the last one."""
    found = {name.lower(): (name, value) for part in parts for name, value in part}
    return dict(found.values())


def secret_names(headers: Iterable[str]) -> list[str]:
    """Return the names of the headers that by their name hold a secret; any other may hold one too."""
    return [name for name in headers if SECRET_NAME.search(name)]


class Secrets:
    """Values of headers that must not be in a text: as a whole, and their words of 4 characters and more."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value) if len(part) >= _SECRET_CHARACTERS_MIN}
        self._longest_first = sorted(parts - _SCHEMES, key=len, reverse=True)

    def removed_from(self, text: str) -> str:
        """Return a text without them. It must be whole: a part of a secret is not found."""
        for secret in self._longest_first:
            text = text.replace(secret, _HIDDEN)
        return text


def _parts(value: str) -> set[str]:
    """Return a value, its words, and the values of its pairs ``NAME=VALUE``, such as those of cookies."""
    words = value.split()
    pairs = {word.rstrip(";,").partition("=")[2].strip('"') for word in words}
    return {value, *words, *pairs}
