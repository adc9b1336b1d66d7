"""Files of checkpoints as objects of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.replication.engine import EngineError
from forebay.broker.storage.replication.engines.kafka.objects.store import TopicStore


class TopicTarget:
    """A ``Target``."""

    reads_at_once: Final = 1
    """One consumer that reads on is faster than several at once."""

    def __init__(self, store: TopicStore, folder: str) -> None:
        """Names are those of objects below ``folder``, which ends with a slash."""
        self._store: Final = store
        self._folder: Final = folder

    def names(self, prefix: str = "") -> Iterator[str]:
        """See ``Target.names``."""
        with _failing():
            found = self._store.below(self._folder + prefix)
        yield from (each.name.removeprefix(self._folder) for each in found)

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """See ``Target.put``."""
        with _failing():
            self._store.put(self._folder + name, (bytes(chunk) for chunk in chunks))  # a chunk may be used again
            self._store.index()  # an owner asks for none while it makes a checkpoint

    def get(self, name: str) -> Iterator[bytes]:
        """See ``Target.get``."""
        with _failing():
            found = self._store.find(self._folder + name)
            if found is None:
                raise FileNotFoundError(name)
            yield from self._store.parts(found)

    def delete(self, names: Iterable[str]) -> None:
        """See ``Target.delete``."""
        with _failing():
            self._store.delete([self._folder + name for name in names])

    def sync(self) -> None:
        """See ``Target.sync``: an object is durable once it is confirmed."""


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        raise TargetFailed(str(error)) from error
