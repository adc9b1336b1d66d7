"""Questions about several sinks, each asked by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from forebay.client import Client, SinkStats

V = TypeVar("V")


def listed(client: Client, question: Callable[[str], V], names: Iterable[str] | None = None) -> dict[str, V]:
    """Return the answers about ``names``, by default all sinks, in their order.

    A sink that is deleted in the meantime is left out.
    """
    from forebay.client.errors import SinkNotFound

    answers: dict[str, V] = {}
    for name in [one.name for one in client.sinks.list()] if names is None else names:
        try:
            answers[name] = question(name)
        except SinkNotFound:
            continue
    return answers


def stats_of(client: Client, sink: str | None) -> list[SinkStats]:
    """Return the stats of a sink, or of all without one. Raises ``SinkNotFound`` for the named one."""
    if sink:
        return [client.sinks.stats(sink)]
    return list(listed(client, client.sinks.stats).values())
