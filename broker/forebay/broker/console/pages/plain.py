"""Data of a page as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import IntEnum
from functools import cache
from typing import Any

from google.protobuf.message import Message

from forebay.broker.console.pages.page import as_json


def plain(value: Any) -> Any:
    """Return a value as JSON has it: with computed figures, and with the names of ranks in lower case."""
    if value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, int):
        return value
    if isinstance(value, Message):
        return as_json(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    return {name: plain(getattr(value, name)) for name in _names(value.__class__)}


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass, and its properties."""
    computed = (name for name, one in vars(kind).items() if isinstance(one, property))
    return (*(field.name for field in fields(kind)), *computed)
