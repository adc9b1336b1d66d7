"""Data of a page as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from google.protobuf.message import Message

from forebay.broker.console.pages.page import as_json


def plain(value: Any) -> Any:
    """Return a value as JSON has it: with the properties of dataclasses, and the names of ranks in lower case."""
    if isinstance(value, Message):
        return as_json(value)
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in _names(value)}
    return value


def _names(value: Any) -> Iterator[str]:
    yield from (field.name for field in fields(value))
    yield from (name for name, one in vars(type(value)).items() if isinstance(one, property))
