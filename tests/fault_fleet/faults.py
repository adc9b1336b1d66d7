"""Table of the faults of a fleet. Each is injected and undone, then one broker has to own the shard."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.fault_fleet.fleet import SETTLES_S, Fleet, Member
from tests.support.proxies.group import Way
from tests.support.storage.destruction import destroy_store

AT_ONCE: Final = 0.25
"""Share of the killed brokers that are started again at once, the others once another one serves."""
ALL_LOST: Final = 0.05
"""Share of the kills of all brokers at once, of which every directory is lost."""
RACE: Final = 0.4
"""Share of the faults that end about when the takeover begins, the others when it is complete, or later."""


class Wire:
    """Ways to cut a connection, drawn for each fault, and their end."""

    def __init__(self, proxy: Way, chance: random.Random) -> None:
        self._proxy = proxy
        self.kind: Final = chance.choice(("hold", "refuse", "lose answers"))

    def cut(self) -> None:
        """Keep bytes back, reset all connections, or lose the answers of what is done all the same."""
        {"hold": self._proxy.hold, "refuse": self._proxy.refuse, "lose answers": self._proxy.lose_answers}[self.kind]()

    def mend(self) -> None:
        """Pass everything on again: what was held arrives late."""
        if self.kind == "lose answers":
            self._proxy.reset()
        else:
            self._proxy.release()


@dataclass(frozen=True, slots=True)
class Scene:
    """Means of a fault."""

    fleet: Fleet
    chance: random.Random
    confirmed: Callable[[Member, int, float], bool]
    """Takes an owner, its life and a time: whether it has given a receipt for a record that was sent since then."""


Fault = Callable[[Scene], float | None]
"""Returns the seconds from the fault until the next owner serves, None where no warm follower took over."""


def kill(scene: Scene) -> float | None:
    """Kill the owner; rarely all brokers, with the loss of their directories."""
    fleet, chance = scene.fleet, scene.chance
    owner = fleet.settle()
    loses_all, at_once = chance.random() < ALL_LOST, chance.random() < AT_ONCE
    began = time.monotonic()
    for member in fleet.members if loses_all else [owner]:
        member.kill()
    if loses_all:
        for member in fleet.members:
            destroy_store(member.store)
            fleet.restart(member)
    elif at_once:
        fleet.restart(owner)
    _serves(fleet, began)
    took_s = fleet.services[-1].at_s - began
    if owner.process is None:
        fleet.restart(owner)
    return None if loses_all or at_once else took_s


def freeze(scene: Scene) -> float | None:
    """Stop the owner's process until it is fenced, or about to be, and wake it up."""
    owner = scene.fleet.settle()
    return _silence(scene, owner, lambda: owner.signal(signal.SIGSTOP), lambda: owner.signal(signal.SIGCONT))


def owner_to_engine(scene: Scene) -> float | None:
    """Cut the owner off the journal."""
    owner = scene.fleet.settle()
    wire = _wire(owner.way, scene)
    return _silence(scene, owner, wire.cut, wire.mend)


def follower_to_engine(scene: Scene) -> float | None:
    """Cut a follower off the journal: no silence of the owner, however long it takes."""
    fleet = scene.fleet
    owner = fleet.settle()
    wire = _wire(scene.chance.choice(fleet.others(owner)).way, scene)
    wire.cut()
    try:
        fleet.watch(scene.chance.uniform(0.3, 2.0) * fleet.takeover_after_s)
    finally:
        wire.mend()
    fleet.settle()
    return None


def client_to_owner(scene: Scene) -> float | None:
    """Cut the clients off the owner, which continues to confirm to its journal."""
    fleet = scene.fleet
    wire = _wire(fleet.settle().door, scene)
    wire.cut()
    try:
        fleet.watch(scene.chance.uniform(0.2, 1.3) * fleet.takeover_after_s)
    finally:
        wire.mend()
    fleet.settle()
    return None


KINDS: Final[Mapping[str, Fault]] = {
    "kill": kill,
    "freeze": freeze,
    "owner to engine": owner_to_engine,
    "client to owner": client_to_owner,
    "follower to engine": follower_to_engine,
}
ENGINE_ONLY: Final = frozenset({"owner to engine", "follower to engine"})
"""Partitions that need a journal behind connections."""


def _wire(proxy: Way | None, scene: Scene) -> Wire:
    assert proxy is not None, "the journal is not behind a connection"
    return Wire(proxy, scene.chance)


def _serves(fleet: Fleet, began: float) -> None:
    if not fleet.wait(lambda: fleet.successor_since(began), SETTLES_S):
        raise AssertionError(f"no broker has taken over within {SETTLES_S:g} s")


def _silence(scene: Scene, owner: Member, begin: Callable[[], None], end: Callable[[], None]) -> float | None:
    """Silence the owner until another one serves, or about as long as a follower waits; then it has to end."""
    fleet, chance, life = scene.fleet, scene.chance, owner.life
    began = time.monotonic()
    begin()
    try:
        if chance.random() < RACE:
            fleet.watch(chance.uniform(0.9, 1.6) * fleet.takeover_after_s)
        else:
            _serves(fleet, began)
            fleet.watch(chance.uniform(0.0, 2.0))
    finally:
        end()
    ended = time.monotonic()
    if not fleet.wait(lambda: fleet.successor_since(began) or scene.confirmed(owner, life, ended), SETTLES_S):
        raise AssertionError(f"neither {owner.name} nor another broker confirms {SETTLES_S:g} s after the fault")
    if not fleet.successor_since(began):
        return None
    took_s = fleet.services[-1].at_s - began
    fleet.ended(owner, life)
    return took_s
