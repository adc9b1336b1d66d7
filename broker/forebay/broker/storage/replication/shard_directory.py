"""Directory of a fleet: one small object per shard below the common address of their journals.

    directory/SHARD        hint at the owner: endpoint, epoch, identity of the journal, is_joined; one line of JSON
    shards/SHARD/…         journal of the shard

The owner of a shard writes its hint when it begins to serve, and again where it finds another one. An object that is no
hint is left out. A shard that is removed loses its object; see ``moves.shard_removal``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from forebay.broker.core.shards import SHARD_NAME, SHARDS_MAX, DirectoryAway, ShardHint
from forebay.broker.storage.replication.engine import Engine, EngineError

_log: Final = logging.getLogger(__name__)
DIRECTORY: Final = "directory"
SHARDS: Final = "shards"
READS_AT_ONCE: Final = 8
HINT_BYTES_MAX: Final = 4_096


class ShardDirectory:
    """A ``Directory``."""

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        """``open_engine`` opens the common address, and raises as ``addresses.open_engine`` does."""
        self._open: Final = open_engine
        self._engine: Engine | None = None

    def read(self) -> list[ShardHint]:
        """See ``Directory.read``."""
        with self._failing():
            engine = self._opened()
            names = [name for name in engine.names(DIRECTORY) if SHARD_NAME.fullmatch(name.rpartition("/")[2])]
            if len(names) > SHARDS_MAX:
                _log.warning("directory has too many shards, some are left out shards=%d", len(names))
            with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="forebay-directory") as pool:
                contents = list(pool.map(engine.read_named, names[:SHARDS_MAX]))
        found = (_hint(name, content) for name, content in zip(names, contents, strict=False))
        return [hint for hint in found if hint is not None]

    def put(self, hint: ShardHint) -> None:
        """See ``Directory.put``."""
        line = json.dumps(asdict(hint), separators=(",", ":"), sort_keys=True)
        with self._failing():
            self._opened().put_named(f"{DIRECTORY}/{hint.shard}", f"{line}\n".encode())

    def has(self, shard: str) -> bool:
        """Return whether a shard has an object, also one that is no hint. Raises ``DirectoryAway``."""
        with self._failing():
            return self._opened().read_named(f"{DIRECTORY}/{shard}") is not None

    def remove(self, shard: str) -> None:
        """Delete the object of a shard; a missing one is left out. Raises ``DirectoryAway``."""
        with self._failing():
            self._opened().delete_named(f"{DIRECTORY}/{shard}")

    def _opened(self) -> Engine:
        if self._engine is None:
            self._engine = self._open()
        return self._engine

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (EngineError, OSError) as error:
            raise DirectoryAway(str(error)) from error


def _hint(name: str, content: bytes | None) -> ShardHint | None:
    """Return the hint in an object, None for a deleted one and for one that is no hint."""
    if content is None:
        return None
    shard = name.rpartition("/")[2]
    try:
        found: dict[str, Any] = json.loads(content[:HINT_BYTES_MAX])
        journal, is_joined = str(found.get("journal", "")), found.get("is_joined") is True
        hint = ShardHint(shard, str(found["endpoint"]), int(found["epoch"]), journal, is_joined)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("directory has an object that is no hint name=%s cause=%s", name, error)
        return None
    return hint
