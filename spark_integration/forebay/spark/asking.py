"""Asks the broker on behalf of a query, in the driver: over one connection, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from forebay.client import Client, errors
from forebay.spark.broker import connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Target
from forebay.spark.read.sink_view import SinkView
from forebay.spark.remedies import explained

Answer = TypeVar("Answer")


class Asking:
    """A connection for the life of a query, made with the first question."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Client | None = None

    def __call__(self, question: Callable[[Client], Answer]) -> Answer:
        """Return what the broker answers. Raises `ForebaySparkError`."""
        if self._client is None:
            self._client = connect(self._target, patience_s=self._target.connect_timeout_s)
        try:
            return question(self._client)
        except errors.ForebayError as error:
            raise explained(error, self._target, doing="read from") from error

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


def check_incarnation(incarnation: str, found: SinkView, target: Target) -> None:
    """Raise `ForebaySparkError` when the sink is not the one that a query has read."""
    if incarnation != found.incarnation:
        raise ForebaySparkError(
            f"Sink {target.sink!r} was deleted and made anew since this query read it.",
            "Start the query with a new checkpoint location: its offsets are those of another sink.",
        )
