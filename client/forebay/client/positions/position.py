"""Saved position of a named consumer in one partition, and the document that a store keeps of it.

A store keeps one document per consumer, sink and partition, under the key ``namespace/consumer/sink/partition``. The
document is JSON in UTF-8, so that every store can show it::

    {"format": 1, "incarnation": "6f1c…", "offset": 1200, "epoch": 3, "owner": "b41d…", "saved_at": "2026-11-23T…"}

``offset`` is the next record to process: every record below it is finished. ``epoch`` rises each time a consumer takes
the partition over, and fences the consumer before it. A document also has ``former``, unless it is empty: the owners
that were replaced, the latest first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from forebay.client.errors import PositionDamaged
from forebay.client.settings import invalid_setting

FORMAT: Final = 1
"""Format of the documents that this version writes."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Form of a namespace and of a consumer's name: safe in a path, a blob name and a query."""

NAME_FORM: Final = "a letter or digit, then up to 127 letters, digits, '.', '_' or '-'"
"""That form in words."""

WRITE_MARK: Final = ".write"
"""End of the names under which queries that write to a sink are kept; see ``PositionKey.is_write``."""

DOCUMENT_BYTES_MAX: Final = 4096
"""Bound of a document."""


FORMER_MAX: Final = 32
"""Maximum number of replaced owners that the document of a query that writes names."""

FORMER_CONSUMERS_MAX: Final = 8
"""Maximum number of replaced owners that the document of a consumer names."""


@dataclass(frozen=True, slots=True)
class PositionKey:
    """Place of a saved position in a store."""

    namespace: str
    consumer: str
    sink: str
    partition: int

    def __post_init__(self) -> None:
        """Reject names that a store could not keep."""
        for name, value in (("namespace", self.namespace), ("name", self.consumer)):
            if NAME.fullmatch(value) is None:
                raise invalid_setting(name, repr(value), NAME_FORM)

    @property
    def is_write(self) -> bool:
        """True if the document is that of a Spark query that writes, which is no consumer.

        Its offset is the first micro-batch that was seen, its owner the query, and its epoch counts the queries.
        """
        return self.consumer.endswith(WRITE_MARK)

    def __str__(self) -> str:
        """Return the key in a store."""
        return f"{self.namespace}/{self.consumer}/{self.sink}/{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a stored document. Raises ``ValueError`` for a key that is none."""
        namespace, consumer, sink, partition = text.split("/")
        return cls(namespace, consumer, sink, int(partition))


@dataclass(frozen=True, slots=True)
class SavedPosition:
    """SavedPosition of a consumer in one partition of one incarnation of a sink."""

    incarnation: str
    offset: int
    """Next record to process: every record below it is finished."""

    epoch: int
    """Owner epoch: that of the consumer that wrote the position last."""

    owner: str
    """Random id of that consumer."""

    saved_at: datetime
    former: tuple[str, ...] = ()
    """Owners that were replaced, the latest first."""

    def replaced_by(self, owner: str, most: int = FORMER_MAX) -> tuple[str, ...]:
        """Return the former owners of a document that ``owner`` writes after this one, at most ``most``."""
        return tuple(one for one in (self.owner, *self.former) if one != owner)[:most]

    def encode(self) -> bytes:
        """Return the document of the position."""
        document: dict[str, object] = {
            "format": FORMAT,
            "incarnation": self.incarnation,
            "offset": self.offset,
            "epoch": self.epoch,
            "owner": self.owner,
            "saved_at": self.saved_at.astimezone(UTC).isoformat(timespec="milliseconds"),
        }
        if self.former:
            document["former"] = self.former
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: str, document: bytes) -> Self:
        """Return the position in a document. Raises ``PositionDamaged`` for anything else, or a newer format."""
        try:
            found = json.loads(document)
            if found["format"] != FORMAT:
                raise _damaged(key, f"its format is {found['format']}, this version reads format {FORMAT}")
            offset, epoch = found["offset"], found["epoch"]
            if not (type(offset) is int and 0 <= offset < 1 << 63 and type(epoch) is int and epoch > 0):
                raise _damaged(key, "offset and epoch must be integers of 63 bits, and epoch above 0")
            saved_at = datetime.fromisoformat(found["saved_at"])
            former = tuple(str(one) for one in found.get("former", ()))
            return cls(str(found["incarnation"]), offset, epoch, str(found["owner"]), saved_at, former)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(key, f"{type(error).__name__} at decoding") from error


def _damaged(key: str, problem: str) -> PositionDamaged:
    return PositionDamaged(
        f"the saved position {key} is damaged: {problem}; delete it to begin as without one", facts={"key": key}
    )
