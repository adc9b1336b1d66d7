"""Settings as text: ``NAME=VALUE`` pairs as keywords.

Names and types of a sink's settings come from the client's `SinkSettings`, those of a broker from its configuration, so
that a new setting needs no change here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed
from forebay.text.quantities import plain, with_unit

_WORDS: Final = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


def setting_text(name: str, value: object) -> str:
    """Return the value of a setting for a table, as it can be typed: ``10GB``, ``1h``, ``true``."""
    if isinstance(value, bool):
        return str(value).lower()
    return with_unit(name.rpartition(".")[2], value) if isinstance(value, int | float) else str(value)


def parse_settings(pairs: Sequence[str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in ``pairs`` as keywords; ``kinds`` are the type hints by name.

    Raises `CommandFailed` for a pair without ``=``, an unknown name, or a value of another type.
    """
    settings: dict[str, Any] = {}
    for name, text in _named(pairs):
        if name not in kinds:
            raise _wrong(f"unknown setting {name!r}: must be one of {', '.join(sorted(kinds))}")
        settings[name] = _value(name, text, kinds[name])
    return settings


def nested_texts(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the settings in ``pairs`` as texts; ``TABLE.NAME=VALUE`` names a setting of a table, a dict.

    Raises `CommandFailed` for a pair without ``=``.
    """
    settings: dict[str, Any] = {}
    for path, text in _named(pairs):
        table, dot, name = path.partition(".")
        if dot:
            below = settings.get(table)
            settings[table] = {**(below if isinstance(below, dict) else {}), name: text}
        else:
            settings[path] = text
    return settings


def _named(pairs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each pair."""
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise _wrong(f"{pair!r} is not NAME=VALUE")
        yield name.strip().replace("-", "_"), text.strip()


def _value(name: str, text: str, kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(option for option in get_args(kind) if option is not type(None))
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.name: member for member in kind if member.name != "UNSPECIFIED"}
        if text.upper() not in members:
            raise _wrong(f"{name} = {text!r}: must be one of {', '.join(members)}")
        return members[text.upper()]
    if kind is bool:
        if text.lower() not in _WORDS:
            raise _wrong(f"{name} = {text!r}: must be true or false")
        return _WORDS[text.lower()]
    try:
        text = plain(name, text)
    except ValueError as error:
        raise _wrong(f"{name} = {error}") from error
    convert: Callable[[str], Any] = kind if kind in (int, float, str) else str
    try:
        return convert(text)
    except ValueError as error:
        raise _wrong(f"{name} = {text!r}: must be {'an integer' if kind is int else 'a number'}") from error


def _wrong(problem: str) -> CommandFailed:
    return CommandFailed(problem, ExitCode.USAGE)
