"""Options as passed by Spark, read by name and type.

Spark passes strings with lower-cased names, its own options included. A name that neither Forebay nor Spark knows is an
error that lists the known names, so that a misspelt option is not ignored. Names are accepted in both styles,
``delivery_timeout_s`` and ``deliveryTimeoutS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from forebay.spark.errors import ForebaySparkError

Default = TypeVar("Default")
Choice = TypeVar("Choice", bound=StrEnum)

# What Spark itself puts among the options of a source: paths, streaming settings, and the properties of tables.
_OF_SPARK: Final = frozenset(
    {
        "checkpointlocation",
        "clusterby",
        "comment",
        "external",
        "ismanagedlocation",
        "location",
        "outputmode",
        "owner",
        "path",
        "paths",
        "provider",
        "queryname",
        "triggerinterval",
    }
)
_OF_SPARK_PREFIXES: Final = ("__", "option.", "spark.")
_SECRETS: Final = frozenset(
    {"token", "accesstoken", "bearertoken", "authtoken", "authorization", "password", "secret", "tlskey", "apikey"}
)


_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "endpoint",
    "subscribe": "sink",
    "topic": "sink",
    "maxoffsetspertrigger": "maxRecordsPerTrigger",
    "minpartitions": "max_records_per_split",
    "includeheaders": "columns",
    "kafka.group.id": "subscription",
    "groupidprefix": "subscription",
}
"""Options of Spark's Kafka connector, with the equivalent option of Forebay."""


class OptionValues:
    """Given options by normalized name."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], *, other: tuple[str, ...], doing: str) -> None:
        """Raise `ForebaySparkError` for a name that is neither in ``known`` nor an option of Spark.

        ``other`` are the option names of the opposite direction; ``doing`` is ``read`` or ``write``.
        """
        plain = {_plain(name) for name in known} | {"path"}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if _plain(name) in plain:
                self._values[_plain(name)] = value.strip()
            elif _plain(name) in _SECRETS:
                raise ForebaySparkError(
                    f"Option {name} would expose a secret: options are visible in the query plan and event log.",
                    "Leave it out. Give driver and executors the token as the environment variable FOREBAY_TOKEN, or "
                    "name another one with token_env, or a file with token_file. Revoke this token.",
                )
            elif not _belongs_to_spark(name):
                opposite = "read" if doing == "write" else "write"
                hint = f"; it is an option of a {opposite}" if _plain(name) in {_plain(o) for o in other} else ""
                if instead := _OF_KAFKA.get(name.lower()):
                    hint = f"; the equivalent of this Kafka option is {instead}"
                raise ForebaySparkError(
                    f"Option {name} is unknown to a {doing} of format forebay{hint}.",
                    f"Use one of: {', '.join(known)}.",
                )

    def text(self, name: str) -> str | None:
        """Return a value, None if it is missing or empty."""
        return self._values.get(_plain(name)) or None

    def whole(self, name: str, low: int, high: int, *, default: Default) -> int | Default:
        """Return an integer within inclusive bounds."""
        text = self.text(name)
        if text is None:
            return default
        if text.isdecimal() and low <= int(text) <= high:
            return int(text)
        raise ForebaySparkError(f"Option {name} is {text!r}.", f"Set it to an integer from {low} to {high}.")

    def seconds(self, name: str, low: float, high: float, *, default: float) -> float:
        """Return a number of seconds within inclusive bounds."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if low <= value <= high:
            return value
        raise ForebaySparkError(
            f"Option {name} is {text!r}.", f"Set it to a number of seconds from {low:g} to {high:g}."
        )

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in {"true", "false"}:
            raise ForebaySparkError(f"Option {name} is {text!r}.", "Set it to true or false.")
        return text.lower() == "true"

    def choice(self, name: str, kind: type[Choice], *, default: Choice) -> Choice:
        """Return a member of an enumeration."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in {str(member) for member in kind}:
            raise ForebaySparkError(f"Option {name} is {text!r}.", f"Set it to one of: {', '.join(kind)}.")
        return kind(text.lower())


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _belongs_to_spark(name: str) -> bool:
    return _plain(name) in _OF_SPARK or name.lower().startswith(_OF_SPARK_PREFIXES)
