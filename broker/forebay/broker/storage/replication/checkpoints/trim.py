"""Trim of a journal: the records below a checkpoint are deleted, but for what stops former owners.

An owner that was frozen may wake up at any time and append at its next position. What it meets there has to be
what was there: a fence of a higher epoch ends it. So something stays at these positions for good:

- fences, and the claim of an import, unchanged;
- records that did not count, as a VOID record of the same epoch without a body. Such a position is one at which
  another owner was refused. Were it free, that owner could create it, and would take the group for durable.

Records that counted are deleted: only their own writer can create one again, with the same content, and the position
after its last one has a fence.

The trim has three steps, each of which may be repeated, also by several brokers at once:

    1   records that did not count are replaced, by the rule of readers from the checkpoint before on
    2   ``voided/NUMBER`` is created: from here on every record below the checkpoint is a fence, VOID, or may go
    3   all others are deleted; a listing shows that they are gone

Where a header is damaged, the effect of the records from there up to the next fence is unknown. They are treated as
records that did not count; the damaged one itself stays as it is, since it may be a fence.

The files that the checkpoint does not name are deleted then, of it and of all earlier ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeAlias

from forebay.broker.storage.backup.manifest import Manifest, manifest_name, started_name
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.replication.checkpoints.mark import Mark
from forebay.broker.storage.replication.engine import Engine, EngineError, name_of
from forebay.broker.storage.replication.history import ReaderPosition, Rule, Verdict
from forebay.broker.storage.replication.record import Header, RecordDamaged, RecordKind, decode_header, encode

_log: Final = logging.getLogger(__name__)
VOIDED: Final = "voided"
PEEKS_AT_ONCE: Final = 8
WINDOW: Final = 512
"""Records whose headers are read, or that are deleted, at once."""
PASSES_MAX: Final = 3
"""Passes of the third step: former owners may create some records again."""
KEPT: Final = frozenset({RecordKind.FENCE, RecordKind.VOID, RecordKind.IMPORT})


class TrimStopped(EngineError):
    """The trim was stopped; the next one completes it."""


class RecordMissing(EngineError):
    """The journal has a gap above its horizon: something else than a broker has deleted records."""


def trim(engine: Engine, before: ReaderPosition, mark: Mark, stop: threading.Event) -> int:
    """Delete the records from ``before``, the place of the checkpoint before, up to a checkpoint.

    Returns their number. The caller has found the mark, and with it a complete checkpoint. Raises ``EngineError``, and
    ``TrimStopped`` when ``stop`` is set; it is repeated then.
    """
    with ThreadPoolExecutor(PEEKS_AT_ONCE, thread_name_prefix="forebay-trim") as pool:
        name = _voided_name(mark.number)
        peek = partial(_headers, engine, pool, stop)
        if engine.read_named(name) is None:
            _void(engine, peek, before, mark, name)
            engine.create_named(name, b"")
        return _delete(engine, peek, before.position, mark.position)


def first_untrimmed(engine: Engine, number: int) -> int:
    """Return the first checkpoint up to ``number`` whose trim may not be complete. Raises ``EngineError``.

    The trim of a checkpoint begins once those of all before it are complete.
    """
    while number and engine.read_named(_voided_name(number)) is None:
        number -= 1
    return number


def _voided_name(number: int) -> str:
    return f"{VOIDED}/{name_of(number)}"


Peek: TypeAlias = Callable[[Sequence[int]], Iterator[tuple[int, Header | RecordDamaged | None]]]


def _void(engine: Engine, peek: Peek, before: ReaderPosition, mark: Mark, done: str) -> None:
    """Replace the records that do not count, or may not. Raises ``RecordMissing``."""
    rule = Rule(before)
    group: list[tuple[int, Header]] = []
    is_known = True
    for position, header in peek(range(before.position, mark.position)):
        if header is None:
            if engine.read_named(done) is not None:
                return  # another broker is ahead with this trim
            raise RecordMissing(f"record {position} of {engine.address} is missing")
        if isinstance(header, RecordDamaged):
            _log.error(
                "record below a checkpoint is damaged and kept journal=%s position=%d cause=%s",
                *(engine.address, position, header),
            )
            is_known = False
            for at, chunk in group:
                _replace(engine, at, chunk)
            group.clear()
            continue
        verdict = rule.judge(header)
        is_known = is_known or verdict is Verdict.FENCE
        if not is_known:
            verdict = Verdict.VOID
        match verdict:
            case Verdict.CHUNK:
                group.append((position, header))
            case Verdict.GROUP:
                group.clear()
            case Verdict.FENCE:
                for at, chunk in group:
                    _replace(engine, at, chunk)
                group.clear()
            case Verdict.VOID if header.kind not in KEPT:
                _replace(engine, position, header)


def _replace(engine: Engine, position: int, header: Header) -> None:
    engine.replace(position, encode(Header(RecordKind.VOID, header.epoch, header.owner)))


def _delete(engine: Engine, peek: Peek, first: int, end: int) -> int:
    kept: set[int] = set()
    deleted = 0
    for _ in range(PASSES_MAX):
        found = [position for position, _ in engine.sizes(first, end) if position not in kept]
        if not found:
            return deleted
        gone: list[int] = []
        for position, header in peek(found):
            if isinstance(header, Header) and header.kind not in KEPT:
                gone.append(position)
            else:
                kept.add(position)
        for window in _windows(gone):
            engine.delete(window)
        deleted += len(gone)
    _log.warning("records below a checkpoint are created again and again first=%d end=%d", first, end)
    return deleted


def _headers(
    engine: Engine, pool: ThreadPoolExecutor, stop: threading.Event, positions: Sequence[int]
) -> Iterator[tuple[int, Header | RecordDamaged | None]]:
    """Yield the headers at positions, in order; None for a missing record.

    A damaged header yields its damage.
    """

    def header_at(position: int) -> Header | RecordDamaged | None:
        if stop.is_set():
            raise TrimStopped("the trim was stopped")
        begin = engine.peek(position)
        try:
            return decode_header(begin) if begin is not None else None
        except RecordDamaged as damage:
            return damage

    for window in _windows(positions):
        yield from zip(window, pool.map(header_at, window), strict=True)


def _windows(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(positions), WINDOW):
        yield positions[at : at + WINDOW]


def sweep(target: Target, mark: Mark, manifest: Manifest) -> int:
    """Delete the files that a checkpoint does not name, of it and of earlier ones; returns their number.

    Those of checkpoints that are being made for a later number stay. Raises ``TargetFailed``.
    """
    named = {piece.name for piece in manifest.pieces} | {manifest_name(mark.id), started_name(mark.id)}
    gone = [name for name in target.names() if name not in named and number_of(name) <= mark.number]
    target.delete(_manifests_first(gone))
    return len(gone)


def _manifests_first(names: Iterable[str]) -> list[str]:
    """Order names so that no manifest outlasts one of its files."""
    return sorted(names, key=lambda name: (not name.endswith("/manifest"), name))


def new_id(number: int, random: str) -> str:
    """Return the folder of a checkpoint that is to get a number."""
    return f"{number:010d}-{random}"


def number_of(name: str) -> int:
    """Return the number that the checkpoint of a file was to get; the highest of all for another file."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 1 << 64
