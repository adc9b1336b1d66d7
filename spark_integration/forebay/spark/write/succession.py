"""Succession of a query that lost its checkpoint by another one with the same checkpoint name.

The sink gives a write name to one query, and refuses another one. A store of saved positions knows the query of each
checkpoint name, so that a new query of that name may take the write name over in its first micro-batch, and the query
before it is refused from then on. The document of a write is that of a position: its owner is the query, its epoch
counts the queries, and its offset is the first micro-batch that was seen. It names the queries that were replaced.
Its name has a suffix, because a query may read a sink and write to it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

from forebay.client import Stage, errors
from forebay.client.positions.position import WRITE_MARK, PositionKey, SavedPosition
from forebay.client.positions.store import PositionStore
from forebay.spark.connection.broker import connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.checkpoint import CheckpointOptions
from forebay.spark.options.write import WriteOptions

TRIES: Final = 10
"""Number of attempts to write the document while other tasks do the same."""

_log: Final = logging.getLogger(__name__)


class KnownQueries:
    """Queries that the store knows as owners of their name, for the life of one process."""

    def __init__(self) -> None:
        self._known: set[tuple[CheckpointOptions, str, str]] = set()

    def may_take_over(self, options: WriteOptions, checkpoint: CheckpointOptions, stage: Stage) -> bool:
        """Record the query of a stage; return True if it may take the write name over now.

        It may in its first micro-batch, if the store knows a query before it.

        Raises ``ForebaySparkError`` for a query that was replaced, and the errors of the store in the first
        micro-batch. Later ones continue without the store.
        """
        query = stage.producer.partition(":")[0]
        known = (checkpoint, stage.incarnation, query)
        if stage.epoch > 0 and known in self._known:
            return False
        try:
            with connect(options.target, patience_s=options.delivery_timeout_s) as client:
                store = client.position_store(checkpoint.store)
                try:
                    follows = _follows(store, options, checkpoint, stage, query)
                finally:
                    store.close()
        except errors.PositionStoreUnavailable as error:
            if stage.epoch == 0:
                raise
            _log.warning("the query is not recorded sink=%s name=%s: %s", options.target.sink, checkpoint.name, error)
            return False
        self._known.add(known)
        return follows and stage.epoch == 0


def _follows(
    store: PositionStore, options: WriteOptions, checkpoint: CheckpointOptions, stage: Stage, query: str
) -> bool:
    """Make a query the owner of its name; returns True if another query of this sink was it before.

    A query that was replaced is known by the document, in its first micro-batch too: that may be the one that its
    driver still runs when the next query starts.
    """
    key = str(PositionKey(checkpoint.namespace, checkpoint.name + WRITE_MARK, options.target.sink, 0))
    for _ in range(TRIES):
        found = store.read(key)
        saved = None if found is None else SavedPosition.decode(key, found.document)
        number, former = 1, tuple[str, ...]()
        if saved is not None and saved.incarnation == stage.incarnation:
            if saved.owner == query:
                return saved.epoch > 1
            if (stage.epoch > 0 or query in saved.former) and not options.takeover:
                raise _replaced(options, checkpoint, query, saved)
            number, former = saved.epoch + 1, saved.replaced_by(query)
            _log.warning(
                "the query takes over a write name sink=%s name=%s query=%s former=%s",
                *(options.target.sink, checkpoint.name, query, saved.owner),
            )
        owner = SavedPosition(stage.incarnation, stage.epoch, number, query, datetime.now(UTC), former)
        try:
            store.compare_and_write(key, owner.encode(), None if found is None else found.version)
        except errors.PositionConflict:
            continue
        return number > 1
    raise errors.PositionConflict(f"{TRIES} tasks wrote {key} concurrently", facts={"key": key})


def _replaced(
    options: WriteOptions, checkpoint: CheckpointOptions, query: str, saved: SavedPosition
) -> ForebaySparkError:
    return ForebaySparkError(
        f"Query {query} was replaced: query {saved.owner} writes to sink {options.target.sink!r} under the"
        f" checkpoint_name {checkpoint.name!r} since {saved.saved_at:%Y-%m-%d %H:%M:%S} UTC.",
        "Stop this query. If it is the right one, start it with its own checkpoint_name, or once with "
        '.option("takeover", "true").',
    )


QUERIES: Final = KnownQueries()
"""Queries whose tasks have run in this process."""
