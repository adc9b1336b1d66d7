"""Probe of an engine: of several writers at one position exactly one must succeed.

Some object stores accept a conditional creation and ignore its condition, at least when two arrive together. On such a
store two owners would both confirm. So writers race for names beside the journal before it is used.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineUnsuitable

WRITERS: Final = 4


def probe(engine: Engine, *, races: int | None = None) -> None:
    """Race for new names; by default as often as the engine says.

    Raises ``EngineUnsuitable``, or ``EngineAway`` where the engine does not answer, or a race had no winner: its answer
    was lost.
    """
    races = engine.races if races is None else races
    names = [f"{secrets.token_hex(8)}-{number}" for number in range(races)]

    def race(pool: ThreadPoolExecutor, name: str) -> int:
        return sum(pool.map(engine.race, [name] * WRITERS))

    try:
        with ThreadPoolExecutor(WRITERS) as writers, ThreadPoolExecutor(WRITERS) as names_at_once:
            winners = list(names_at_once.map(partial(race, writers), names))
    finally:
        engine.end_races(names)
    wrong = [count for count in winners if count > 1]
    if wrong:
        raise EngineUnsuitable(
            f"journal {engine.address}: in {len(wrong)} of {races} races {wrong[0]} of {WRITERS} writers created the "
            "same object, so it could not stop a former owner; use a service with conditional writes"
        )
    if 0 in winners:
        raise EngineAway(f"in {winners.count(0)} of {races} races no writer created the object")
