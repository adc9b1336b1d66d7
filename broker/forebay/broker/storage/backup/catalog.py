"""Catalog of a target: its backups, complete and incomplete, and their deletion.

    ID/started     written first: when the backup began, and the backup that it is incremental to
    ID/files/…     files that this backup has transferred, by their path in the data directory
    ID/manifest    written last, see ``manifest``

An ID is the time of the backup and a random part, so names sort by time and are never used twice. Files of a deleted
backup stay as long as a remaining manifest names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from forebay.broker.storage.backup.errors import BackupError, BackupNotFound
from forebay.broker.storage.backup.manifest import Manifest, decode_manifest, manifest_name, started_name
from forebay.broker.storage.backup.target import Target, read_all

SECOND_US: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND_US
RUNNING_US: Final = DAY_US
"""Age up to which an incomplete backup is taken for one that still runs."""


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup of a target."""

    id: str
    started_at_us: int
    manifest: Manifest | None = None
    """None while it is incomplete, and if it is damaged."""

    parent: str = ""
    """Backup that it is incremental to, also before its manifest is written."""

    damage: str = ""
    """Cause why its manifest cannot be read."""

    @property
    def complete(self) -> bool:
        """Tell whether its manifest was written and can be read."""
        return self.manifest is not None


@dataclass(frozen=True, slots=True)
class Pruned:
    """Result of a prune."""

    backups: tuple[str, ...]
    """Complete backups that were deleted."""

    incomplete: tuple[str, ...]
    files: int
    """Files that no remaining backup names."""


def new_id(at_us: int, random: str) -> str:
    """Return the ID of a backup that begins now."""
    second, rest_us = divmod(at_us, SECOND_US)
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%dT%H%M%S}{rest_us:06d}Z-{random}"


def mark_started(target: Target, backup: str, *, at_us: int, parent: str) -> None:
    """Write the mark of a backup that begins."""
    content = json.dumps({"started_at_us": at_us, "parent": parent}).encode()
    target.put(started_name(backup), [content])
    target.sync()


def is_started(target: Target, backup: str) -> bool:
    """Return whether a backup still has its mark."""
    return started_name(backup) in target.names(started_name(backup))


def list_backups(target: Target, names: Iterable[str] | None = None) -> list[Backup]:
    """Return all backups of a target, the oldest first.

    ``names`` are those in the target, if they are known.
    """
    return _listed(target, set(target.names()) if names is None else names)


def _listed(target: Target, names: Iterable[str]) -> list[Backup]:
    marks = {name.partition("/")[0]: set[str]() for name in names if name.count("/") == 1}
    for name in names:
        backup, _, rest = name.partition("/")
        if rest in {"manifest", "started"}:
            marks[backup].add(rest)
    return [_backup(target, backup, found) for backup, found in sorted(marks.items()) if found]


def _backup(target: Target, backup: str, marks: set[str]) -> Backup:
    started_at_us, parent = 0, ""
    if "started" in marks:
        try:
            found = json.loads(read_all(target, started_name(backup)))
            started_at_us, parent = int(found["started_at_us"]), str(found["parent"])
        except (ValueError, KeyError, TypeError):
            pass  # cut off while it was written: its age is unknown, so it is old
    if "manifest" not in marks:
        return Backup(backup, started_at_us, parent=parent)
    try:
        manifest = decode_manifest(read_all(target, manifest_name(backup)), backup=backup)
    except BackupError as damage:
        return Backup(backup, started_at_us, parent=parent, damage=str(damage))
    return Backup(backup, started_at_us, manifest, parent)


def find(target: Target, backup: str = "") -> Manifest:
    """Return the manifest of a backup, by default of the newest complete one. Raises ``BackupError``."""
    if backup:
        try:
            return decode_manifest(read_all(target, manifest_name(backup)), backup=backup)
        except FileNotFoundError:
            raise BackupNotFound(f"backup {backup!r} does not exist or is incomplete") from None
    complete = [one.manifest for one in list_backups(target) if one.manifest is not None]
    newest = [newest_of(complete, store_id) for store_id in {one.store_id for one in complete}]
    found = max((one for one in newest if one is not None), key=lambda one: (one.taken_at_us, one.id), default=None)
    if found is None:
        raise BackupNotFound("the target has no complete backup; `forebay backup list` shows what it has")
    return found


def newest_of(manifests: Iterable[Manifest], store_id: str) -> Manifest | None:
    """Return the newest backup of a store."""
    return max((one for one in manifests if one.store_id == store_id), key=_order, default=None)


def _order(manifest: Manifest) -> tuple[int, int, str]:
    """Return the place of a backup among those of its store, also if the wall clock went back between two."""
    return manifest.number, manifest.taken_at_us, manifest.id


def prune(
    target: Target, *, now_us: int, keep_last: int, keep_days: float, store_id: str = "", dry_run: bool = False
) -> Pruned:
    """Delete backups that are neither among the newest ``keep_last`` of their store nor young.

    Young ones are younger than ``keep_days`` days. The newest complete one of each store is always kept: brokers may
    share a target. Incomplete ones are deleted when they are a day old. ``store_id`` limits the deletion to backups of
    one store. A ``dry_run`` returns the same and deletes nothing. Raises ``BackupError`` and deletes nothing if a
    manifest cannot be read: it is not known then which files are needed.
    """
    names = set(target.names())
    known = _listed(target, names)
    for one in known:
        if one.damage:
            raise BackupError(f"nothing was deleted: {one.damage}")
    running = [one for one in known if not one.complete and now_us - one.started_at_us < RUNNING_US]
    needed = {one.parent for one in running} | {one.id for one in running}
    manifests = (one.manifest for one in known if one.manifest is not None)
    complete = sorted((one for one in manifests if store_id in {"", one.store_id}), key=_order)
    stores: dict[str, list[str]] = {}
    for found in complete:
        stores.setdefault(found.store_id, []).append(found.id)
    kept = {backup for own in stores.values() for backup in own[-max(1, keep_last) :]}
    kept |= {found.id for found in complete if now_us - found.taken_at_us < keep_days * DAY_US} | needed
    gone = [found.id for found in complete if found.id not in kept]
    incomplete = [one.id for one in known if not one.complete and one.id not in needed] if not store_id else []
    left = [one.manifest for one in known if one.manifest is not None and one.id not in gone]
    files = _unneeded(names, left, keep=needed)
    if dry_run:
        return Pruned(tuple(gone), tuple(incomplete), len(files))
    target.delete([*map(manifest_name, gone), *map(started_name, incomplete)])
    target.delete(files)
    target.delete(map(started_name, gone))
    return Pruned(tuple(gone), tuple(incomplete), len(files))


def _unneeded(names: Iterable[str], left: Sequence[Manifest], *, keep: set[str]) -> list[str]:
    """Return the files that no manifest names and that belong to no running backup."""
    named = {piece.name for manifest in left for piece in manifest.pieces}
    files = (name for name in names if name.partition("/")[2].startswith("files/"))
    return [name for name in files if name not in named and name.partition("/")[0] not in keep]
