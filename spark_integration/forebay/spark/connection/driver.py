"""Calls of the driver to the broker: one connection per query, with errors that state a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from forebay.client import Client, errors
from forebay.spark.connection.broker import connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Target
from forebay.spark.read.sink_view import SinkView
from forebay.spark.remedies import explained

Answer = TypeVar("Answer")


class DriverConnection:
    """Connection for the life of a query, opened by the first call."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Client | None = None

    def __call__(self, call: Callable[[Client], Answer]) -> Answer:
        """Return the broker's answer to ``call``. Raises `ForebaySparkError`."""
        if self._client is None:
            self._client = connect(self._target, patience_s=self._target.connect_timeout_s)
        try:
            return call(self._client)
        except errors.ForebayError as error:
            raise explained(error, self._target, doing="read from") from error

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


def check_incarnation(incarnation: str, found: SinkView, target: Target) -> None:
    """Raise `ForebaySparkError` if the sink is not the one that the query has read."""
    if incarnation != found.incarnation:
        raise ForebaySparkError(
            f"Sink {target.sink!r} was deleted and recreated since this query read it.",
            "Start the query with a new checkpoint location: its offsets belong to the deleted sink.",
        )
