"""Position of a stream in the broker: a subscription that is settled as far as Spark has committed.

The checkpoint determines the next offset. The subscription retains unread records, fixes the start of a new query, and
shows its lag. It is never ahead of a commit, so that uncommitted records can be read again.
"""

from __future__ import annotations

from collections.abc import Mapping

from forebay.client import Client, Position, errors
from forebay.spark.options.read import Bound, ReadOptions
from forebay.spark.read.offsets import StreamOffset
from forebay.spark.read.ranges import plan_start
from forebay.spark.read.sink_view import SinkView, resolved, view


class Settlement:
    """Subscription of one query. Used in the driver."""

    def __init__(self, options: ReadOptions, name: str) -> None:
        """``name`` is the subscription's."""
        self._options = options
        self._sink = options.target.sink
        self._name = name
        self._settled: Mapping[int, int] = {}

    def begin(self, client: Client, found: SinkView) -> Mapping[int, int]:
        """Return the start of a new query: the subscription's position; creates it if it does not exist.

        Nothing but `settle` moves it, so a first batch that failed begins there again, whatever ``latest`` is by then.
        Raises `ForebaySparkError` for a start that the sink does not have.
        """
        settled = self.position(found)
        if settled is None:
            self.create(client, found, self._start(client, found))
            settled = view(client, self._sink).watermarks[self._name]
        return settled

    def position(self, found: SinkView) -> Mapping[int, int] | None:
        """Return the subscription's position; None if it does not exist."""
        return found.watermarks.get(self._name)

    def create(self, client: Client, found: SinkView, start: Position) -> None:
        """Create the subscription at the start of a query, unless it exists."""
        if self._name not in found.watermarks:
            client.subscriptions.create(
                self._sink,
                self._name,
                start=start,
                or_earliest=not self._options.fail_on_data_loss,
                exist_ok=True,
                incarnation=found.incarnation,
            )

    def settle(self, client: Client, upto: StreamOffset) -> None:
        """Settle all records below a committed position. Idempotent; a lower position has no effect.

        Creates the subscription there if it was deleted, or did not exist when the query began.
        """
        if upto.initial or all(offset <= self._settled.get(at, 0) for at, offset in upto.partitions.items()):
            return
        try:
            client.subscriptions.settle(self._sink, self._name, offsets=upto.partitions, incarnation=upto.incarnation)
        except errors.SubscriptionNotFound:
            client.subscriptions.create(
                self._sink,
                self._name,
                start=dict(upto.partitions),
                or_earliest=True,
                exist_ok=True,
                incarnation=upto.incarnation,
            )
        self._settled = upto.partitions

    def _start(self, client: Client, found: SinkView) -> Position:
        starting = self._options.starting
        if starting.at is not None:
            return starting.at
        if starting.by_partition:
            return plan_start(resolved(client, self._options, found), found.stored)
        return "latest" if starting.default is Bound.LATEST else "earliest"
