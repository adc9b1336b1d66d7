"""Manifest of a backup: its files with their checksums, and the accounts of its sinks.

It is written last, so a backup without one is incomplete. It names every file of the backup, also those that an earlier
one has transferred: a backup needs no chain, and any backup may be deleted while others remain.

    line 1   the manifest as JSON
    line 2   CRC-32 of the first line, in hexadecimal

A reader rejects a higher ``format`` than its own, and ignores names that it does not know. Every format has these two
lines: only so an earlier version tells a manifest of a later one from a damaged one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from forebay.broker.storage.backup.errors import BackupError, ManifestDamaged
from forebay.broker.storage.records.json_line import decode_line, encode_line

FORMAT: Final = 1
"""Format of the manifest and of the layout of the target."""

_PATH: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Form of a path in a data directory: below it, whatever a manifest says."""

_BACKUP: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

Extent = tuple[int, int]
"""Range of a file: its first byte and its length."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of the data directory."""

    path: str
    """Path in the data directory."""

    size: int
    """Bytes of the file."""

    crc32: int
    """Of the stored bytes."""

    held_by: str
    """Backup whose folder holds the bytes."""

    extents: tuple[Extent, ...] | None = None
    """Stored ranges of a file with holes; None for a whole file."""

    modified_ns: int | None = None
    """Time of the last change of a table; None for other files, and in backups of earlier versions."""

    @property
    def stored_bytes(self) -> int:
        """Bytes in the target."""
        return self.size if self.extents is None else sum(length for _, length in self.extents)

    @property
    def name(self) -> str:
        """Name of the bytes in the target."""
        return piece_name(self.held_by, self.path)


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """Account of a partition at the instant of a backup."""

    earliest: int
    next_offset: int
    records: int
    """Stored."""


@dataclass(frozen=True, slots=True)
class SinkAccount:
    """Account of a sink at the instant of a backup."""

    name: str
    incarnation: str
    partitions: tuple[PartitionAccount, ...] = ()
    settled: Mapping[str, int] = field(default_factory=dict)
    """Low watermarks of each subscription, added up over the partitions."""

    epochs: Mapping[str, int] = field(default_factory=dict)
    """Last committed epoch by producer."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a complete backup."""

    id: str
    store_id: str
    version: str
    """Version of Forebay that wrote it."""

    data_format: int
    """Format of the data directory."""

    start_count: int
    taken_at_us: int
    """Wall-clock time of the snapshot."""

    pieces: tuple[Piece, ...]
    sinks: tuple[SinkAccount, ...]
    positions: int
    """Saved positions."""

    parent: str = ""
    """Backup that it was incremental to; empty for a full one."""

    seconds: float = 0.0
    """Duration of the transfer."""

    damage: str = ""
    """Cause why the accounts could not be read from the store; empty where they could."""

    number: int = 0
    """Number among the backups of its store; 0 where it has none. The wall clock may go back."""

    format: int = FORMAT

    @property
    def size(self) -> int:
        """Bytes that a restore reads."""
        return sum(piece.stored_bytes for piece in self.pieces)

    @property
    def transferred_bytes(self) -> int:
        """Bytes that this backup has written."""
        return sum(piece.stored_bytes for piece in self.pieces if piece.held_by == self.id)

    def encode(self) -> bytes:
        """Return the bytes of the manifest."""
        return encode_line(asdict(self))


def decode_manifest(content: bytes, *, backup: str) -> Manifest:
    """Return a manifest. Raises ``ManifestDamaged``, and ``BackupError`` if it is of a higher format."""
    found = decode_line(content)
    if found is None:
        raise ManifestDamaged(f"the manifest of backup {backup} is damaged: its checksum does not match")
    if found["format"] > FORMAT:
        raise BackupError(
            f"backup {backup} has format {found['format']} and was written by Forebay {found['version']}; "
            f"this version reads up to format {FORMAT}: use that version, or a newer one"
        )
    return Manifest(
        id=found["id"],
        store_id=found["store_id"],
        version=found["version"],
        data_format=found["data_format"],
        start_count=found["start_count"],
        taken_at_us=found["taken_at_us"],
        pieces=tuple(_piece(one, backup) for one in found["pieces"]),
        sinks=tuple(decode_sink(one) for one in found["sinks"]),
        positions=found["positions"],
        parent=found["parent"],
        seconds=found["seconds"],
        damage=found["damage"],
        number=found.get("number", 0),
        format=found["format"],
    )


def _piece(found: Mapping[str, Any], backup: str) -> Piece:
    extents = found["extents"]
    ranges = None if extents is None else tuple((first, length) for first, length in extents)
    piece = Piece(found["path"], found["size"], found["crc32"], found["held_by"], ranges, found.get("modified_ns"))
    if _PATH.fullmatch(piece.path) is None or _BACKUP.fullmatch(piece.held_by) is None:
        raise BackupError(
            f"the manifest of backup {backup} names a file that no data directory has: {piece.path!r} of "
            f"{piece.held_by!r}; it was not written by Forebay"
        )
    return piece


def decode_sink(found: Mapping[str, Any]) -> SinkAccount:
    """Return the account of a sink from its JSON."""
    partitions = tuple(PartitionAccount(**one) for one in found["partitions"])
    return SinkAccount(found["name"], found["incarnation"], partitions, found["settled"], found["epochs"])


def manifest_name(backup: str) -> str:
    """Name of a manifest in the target."""
    return f"{backup}/manifest"


def started_name(backup: str) -> str:
    """Name of the mark that a backup writes first."""
    return f"{backup}/started"


def piece_name(backup: str, path: str) -> str:
    """Name of the bytes of a file in the target."""
    return f"{backup}/files/{path}"
