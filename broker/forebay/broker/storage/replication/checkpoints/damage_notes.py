"""Notes of damaged files: the next checkpoint writes a file again that has one.

    damaged/CHECKPOINT.FILE   a small object with the damage as text

A checkpoint takes over files of the one before without reading them. So a broker that finds such a file damaged writes
a note into the journal, and the next checkpoint transfers the file from the directory of the broker that makes it,
below its own name. Until that has its mark, the note stays. The trim of a checkpoint deletes the notes of files that it
does not name any more.

A note only informs. If it is lost, the checkpoint takes over the damaged file, and the next reader writes the note
again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from forebay.broker.storage.backup.manifest import Manifest, Piece
from forebay.broker.storage.replication.checkpoints.mark import Mark
from forebay.broker.storage.replication.checkpoints.trim import number_of
from forebay.broker.storage.replication.engine import Engine, EngineError

DAMAGED: Final = "damaged"


class DamageNotes:
    """Writer of notes. Any thread."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is written yet."""
        self._engine: Final = engine
        self._written: Final[set[str]] = set()
        """Notes that this process has written: a reader tries a file again and again."""

    def add(self, piece: Piece, problem: str) -> None:
        """Note a damaged file.

        Where the engine does not answer, the next attempt to read the file notes it.
        """
        name = _note_name(piece)
        if name not in self._written:
            with suppress(EngineError):
                self._engine.put_named(name, problem.encode())
                self._written.add(name)


def noted(engine: Engine, manifest: Manifest) -> list[Piece]:
    """Return the files of a checkpoint that have a note. Raises ``EngineError``."""
    names = set(engine.names(DAMAGED))
    return [piece for piece in manifest.pieces if _note_name(piece) in names]


def delete_notes(engine: Engine, mark: Mark, manifest: Manifest) -> None:
    """Delete the notes of files that a checkpoint does not name, of it and of earlier ones.

    A later checkpoint may have been made meanwhile, and files of it noted: these notes stay. Raises ``EngineError``.
    """
    kept = {_note_name(piece) for piece in manifest.pieces}
    for name in engine.names(DAMAGED):
        if name not in kept and number_of(name.removeprefix(f"{DAMAGED}/")) <= mark.number:
            engine.delete_named(name)


def _note_name(piece: Piece) -> str:
    return f"{DAMAGED}/{piece.held_by}.{piece.path.replace('/', '.')}"
