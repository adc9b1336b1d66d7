"""Secrets of a file of deliveries: from the environment or from a file, never from the text itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from forebay.deliver.targets.options import SECRET_NAME

SECRET_BYTES_MAX: Final = 64 << 10
"""Largest file with a secret."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of secrets."""

    environment: Mapping[str, str]
    folder: Path
    """Folder that relative paths begin in: that of the file of deliveries."""

    def resolve(self, value: Mapping[str, object]) -> str:
        """Return the text that ``{env = "NAME"}`` or ``{file = "PATH"}`` names. Raises ``ValueError``."""
        match dict(value):
            case {"env": str(name), **others} if not others:
                if name not in self.environment:
                    raise ValueError(f"the environment has no variable {name}")
                return self.environment[name]
            case {"file": str(path), **others} if not others:
                return self._content(self.folder / path)
        raise ValueError('a table must be { env = "NAME" } or { file = "PATH" }')

    @staticmethod
    def _content(path: Path) -> str:
        try:
            with path.open("rb") as file:
                content = file.read(SECRET_BYTES_MAX + 1)
            text = content.decode().strip()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8") from error
        if len(content) > SECRET_BYTES_MAX or not text:
            raise ValueError(f"{path} must have 1 to {SECRET_BYTES_MAX} bytes of text")
        return text


def check_literal(name: str, text: str) -> None:
    """Raise ``ValueError``, without the value, if an option that is written in the file holds a secret."""
    if SECRET_NAME.search(name) or _has_password(text):
        raise ValueError('a secret must come from { env = "NAME" } or { file = "PATH" }')


def _has_password(text: str) -> bool:
    try:
        return "://" in text and urlsplit(text).password is not None
    except ValueError:  # no URL: the target rejects it
        return False
