"""Cuts of a topic.

Kafka deletes from the beginning only, so the objects in the way are carried to the end first.
"""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.storage.replication.engines.kafka.objects.table import Objects, StoredObject


@dataclass(frozen=True, slots=True)
class Cut:
    """A base, and the objects that have a part below it."""

    base: int
    carried: tuple[StoredObject, ...]
    freed_bytes: int
    """Bytes below the base without the carried ones."""


def best_cut(objects: Objects, *, garbage_bytes: int) -> Cut | None:
    """Return the cut that frees most for what it carries, None if none is worth it.

    One is worth it that frees ``garbage_bytes``, and twice what it carries.
    """
    by_offset = sorted(objects.all(), key=lambda found: found.first)
    highest = min(objects.incomplete().values(), default=objects.end)
    best: tuple[int, int, int, int] | None = None
    carried_bytes = 0
    for count in range(len(by_offset) + 1):
        base = min(by_offset[count].first if count < len(by_offset) else objects.end, highest)
        if count and by_offset[count - 1].first >= base:
            break
        if base > objects.begin and objects.may_begin_at(base):
            freed = objects.bytes_before(base) - carried_bytes
            if freed >= max(garbage_bytes, 2 * carried_bytes) and (best is None or freed - carried_bytes > best[0]):
                best = (freed - carried_bytes, base, count, freed)
        if count < len(by_offset):
            carried_bytes += by_offset[count].size
    if best is None:
        return None
    _, base, count, freed = best
    return Cut(base, tuple(by_offset[:count]), freed)


def is_free(objects: Objects, base: int) -> bool:
    """Return whether nothing below a base is needed any more, so that a topic may be cut there.

    A carry may have had no effect, and others may have carried meanwhile.
    """
    return objects.lowest() >= base and objects.may_begin_at(base)
