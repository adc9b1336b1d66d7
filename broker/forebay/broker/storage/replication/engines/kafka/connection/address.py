"""Address of a topic: `kafka://HOST:PORT,HOST:PORT/TOPIC?config=FILE`.

The file has settings of librdkafka, a `name = value` line each: protocol, SASL and TLS. Its values are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from forebay.broker.storage.replication.engine import EngineUnsuitable

SCHEME: Final = "kafka"
ALLOWED: Final = ("security.", "sasl.", "ssl.", "client.", "socket.", "metadata.", "broker.address.", "enable.ssl.")
"""Beginnings of the settings that a file may have: the others decide what a receipt means."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A topic, and how to reach it."""

    servers: str
    topic: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """Return it for messages: without settings."""
        return f"{SCHEME}://{self.servers}/{self.topic}"


def parse_address(text: str) -> KafkaAddress:
    """Return the topic of an address. Raises ``EngineUnsuitable``."""
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise EngineUnsuitable(f"journal: the address is no URL: {error}") from error
    topic = url.path.strip("/")
    servers = url.netloc.split(",")
    shown = f"{SCHEME}://{url.netloc}{url.path}" if "@" not in text else f"{SCHEME}://…@{text.rpartition('@')[2]}"
    if not all(_SERVER.fullmatch(server) for server in servers):
        raise EngineUnsuitable(
            f"journal {shown}: must be {SCHEME}://HOST:PORT,HOST:PORT/TOPIC, with a port for each host and without "
            "credentials"
        )
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise EngineUnsuitable(
            f"journal {shown}: the topic is {topic!r}; 1 to 249 letters, digits, dots, underscores and hyphens are "
            "allowed"
        )
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"config"})
    if unknown:
        raise EngineUnsuitable(f"journal {shown}: the option {unknown[0]!r} is unknown; config is allowed")
    settings = _settings(Path(options["config"])) if "config" in options else {}
    return KafkaAddress(url.netloc, topic, settings)


def unreadable(settings: Mapping[str, str]) -> str:
    """Return which file that settings name cannot be read, empty if each can."""
    for name, value in settings.items():
        if name.endswith(".location"):
            try:
                Path(value).open("rb").close()
            except OSError as error:
                return f"the file of {name} cannot be read: {error}"
    return ""


def _settings(path: Path) -> dict[str, str]:
    """Read a file of settings. Raises ``EngineUnsuitable``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineUnsuitable(f"config of the journal: {path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, separator, value = text.partition("=")
        name = name.strip()
        if not separator or not name:
            raise EngineUnsuitable(f"config of the journal: line {number} of {path} must be NAME = VALUE")
        if not name.startswith(ALLOWED):
            raise EngineUnsuitable(
                f"config of the journal: {path} has {name}; settings that begin with "
                f"{', '.join(each.rstrip('.') for each in ALLOWED)} are allowed"
            )
        found[name] = value.strip()
    return found
