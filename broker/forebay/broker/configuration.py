"""Check of a configuration file of a broker, without starting one.

`load` ends at the first problem; the check reports all of them, with the allowed values and the nearest known name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import SETTINGS
from forebay.broker.settings import BrokerSettings, FileSettings, SettingsError, load
from forebay.text.quantities import plain, with_unit

TABLE: Final = "sink_defaults"
"""Table of the settings of sinks."""

FILES: Final = ("tls_server_cert_file", "tls_server_key_file", "tls_client_ca_file", "token_hashes_file")
"""Settings that name files which a broker reads at its start."""

OUT_OF_RANGE: Final = "is no allowed value"

_BOUNDS: Final = {"greater_than_equal", "less_than_equal"}
_OF_SINKS: Final = {each.public_name: each for each in SETTINGS}


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of a configuration file."""

    setting: str
    """Name, ``sink_defaults.NAME`` in the table; empty for a problem of the whole file."""

    value: str
    """Value as it was read; empty for a problem of the whole file."""

    text: str
    allowed: str = ""
    """Allowed values, or the nearest known name of an unknown setting."""


def check(config: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return the settings of a file as they were read, and all problems of it.

    Environment variables do not count.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        filed = tomllib.loads(config.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return {}, [Problem("", "", f"is not TOML: {error}")]
    found = [*_unknown(filed), *_of_values(filed)]
    if not found:
        found = [*_of_the_whole(config)] or [*_missing_files(filed)]
    return filed, found


def allowed_values(name: str) -> str:
    """Return the allowed values of a setting as text; empty if any text is."""
    table, dot, below = name.partition(".")
    if dot and table == TABLE:
        return _OF_SINKS[below].allowed if below in _OF_SINKS else ""
    field = BrokerSettings.model_fields.get(name)
    if field is None:
        return ""
    if isinstance(field.default, bool):
        return "true or false"
    low = next((one.ge for one in field.metadata if hasattr(one, "ge")), None)
    high = next((one.le for one in field.metadata if hasattr(one, "le")), None)
    return f"{_bound(name, low)} to {_bound(name, high)}" if low is not None and high is not None else ""


def _bound(name: str, bound: float) -> str:
    """Return a bound: a size or a duration as it can be typed, another number with separators."""
    typed = with_unit(name, bound)
    if typed != str(bound):
        return typed
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:,g}"


def _unknown(filed: Mapping[str, Any]) -> Iterator[Problem]:
    below = filed.get(TABLE)
    names = [*filed, *(f"{TABLE}.{name}" for name in (below if isinstance(below, dict) else ()))]
    known = [*BrokerSettings.model_fields, *(f"{TABLE}.{name}" for name in _OF_SINKS)]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1) or get_close_matches(f"{TABLE}.{name}", known, 1)
            yield Problem(
                name, _shown(_value(filed, name)), "is no setting", f"did you mean {near[0]}?" if near else ""
            )


def _of_values(filed: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of single values: each known setting is checked alone."""
    for name, value in filed.items():
        if name == TABLE and isinstance(value, dict):
            for below, inner in value.items():
                if below in _OF_SINKS:
                    yield from _of_value(f"{TABLE}.{below}", below, inner)
        elif name in BrokerSettings.model_fields:
            yield from _of_value(name, name, value)


def _of_value(path: str, name: str, value: Any) -> Iterator[Problem]:
    try:
        number = plain(name, value) if isinstance(value, str) else value
        FileSettings.model_validate({TABLE: {name: number}} if path != name else {name: number})
    except ValidationError as error:
        allowed = allowed_values(path)
        for one in error.errors():
            text = OUT_OF_RANGE if one["type"] in _BOUNDS and allowed else one["msg"].removeprefix("Value error, ")
            yield Problem(path, _shown(value), text, allowed)
    except InvalidSetting:
        yield Problem(path, _shown(value), OUT_OF_RANGE, allowed_values(path))
    except ValueError as error:
        yield Problem(path, _shown(value), str(error).partition(": ")[2] or str(error), allowed_values(path))


def _of_the_whole(config: Path) -> Iterator[Problem]:
    """Yield the problem of values that do not fit together, which `load` finds."""
    try:
        load(config, from_environment=False)
    except SettingsError as error:
        setting, equals, rest = str(error).partition(" = ")
        value, colon, text = rest.partition(": ")
        if equals and colon:
            yield Problem(setting, value, text, allowed_values(setting))
        else:
            yield Problem("", "", str(error))


def _missing_files(filed: Mapping[str, Any]) -> Iterator[Problem]:
    for name in FILES:
        path = filed.get(name)
        if path and not Path(path).is_file():
            yield Problem(name, _shown(path), "the file does not exist")


def _value(filed: Mapping[str, Any], name: str) -> Any:
    if name in filed:
        return filed[name]
    table, _, below = name.partition(".")
    return filed[table][below]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
