"""Options of a position store: the query of its URL, and its credentials.

A URL never holds credentials: it appears in programs, logs and process lists. They come from the environment, or from
the file that the option ``credentials_file`` names: lines ``NAME=value`` with the names of the same variables.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl

from forebay.client.errors import InvalidArgument, PositionStoreError
from forebay.client.settings import invalid_setting
from forebay.credentials import CredentialFile, Kind, warnings_of
from forebay.errors.reasons import Reason

_LOG: Final = logging.getLogger("forebay.client")

Options = TypeVar("Options")

_WORDS: Final = {"true": True, "false": False}


def options_of(kind: type[Options], url: SplitResult) -> Options:
    """Return the options of a URL: a dataclass of strings, integers, numbers and booleans with defaults.

    Raises ``InvalidArgument`` for an unknown option and for a value of another type.
    """
    types = {one.name: str(one.type) for one in fields(kind)}  # type: ignore[arg-type]  # every kind is a dataclass
    given: dict[str, Any] = {}
    for name, value in parse_qsl(url.query, keep_blank_values=True):
        if name not in types:
            known = ", ".join(sorted(types))
            raise InvalidArgument(
                f"store: the option {name!r} is unknown: must be one of {known}."
                " Credentials belong in the environment or in credentials_file",
                reason=Reason.INVALID_SETTING,
                facts={"field": f"store.{name}"},
            )
        given[name] = _parsed(name, value, types[name])
    return kind(**given)


def _parsed(name: str, value: str, kind: str) -> object:
    try:
        match kind:
            case "bool":
                return _WORDS[value]
            case "int":
                return int(value)
            case "float":
                return float(value)
            case _:
                return value
    except (KeyError, ValueError) as error:
        allowed = {"bool": "true or false", "int": "an integer", "float": "a number"}[kind]
        raise invalid_setting(f"store.{name}", value, allowed) from error


class Credentials:
    """Variables of the environment or of a file; its text names them and never shows a value."""

    def __init__(self, file: str = "", environment: Mapping[str, str] | None = None) -> None:
        """Read the file, if one is named; a variable that it lacks is taken from the environment.

        Raises ``PositionStoreError`` for a file that cannot be read, or has other lines.
        """
        self._found = dict(os.environ if environment is None else environment)
        if file:
            self._found |= _read(Path(file))
            for problem in warnings_of([CredentialFile("credentials_file", file, Kind.SECRET)], datetime.now(UTC)):
                _LOG.warning("credentials need attention: %s", problem)

    def get(self, name: str) -> str | None:
        """Return the value of a variable; None if it is missing or empty."""
        return self._found.get(name) or None

    def some(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the values that are set, by the name that each variable has in ``names``."""
        return {name: found for name, variable in names.items() if (found := self.get(variable)) is not None}

    def __repr__(self) -> str:
        """Return no value."""
        return "<Credentials>"


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PositionStoreError(f"the credentials file {path} cannot be read: {type(error).__name__}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise PositionStoreError(f"line {number} of the credentials file {path} is no NAME=value")
        found[name.strip()] = value.strip()
    return found
