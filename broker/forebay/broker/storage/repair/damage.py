"""Damage that a start finds, and the report of its repair."""

from __future__ import annotations

from typing import Any

from forebay.broker.core.partition.repair import RepairReport
from forebay.broker.core.writes import Write
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.state import State


class Damage:
    """Damaged values of a store that starts, by kind, and the repairs so far."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.reported: list[RepairReport] = []
        """Repairs so far."""
        self.names: dict[int, str] = {}
        """Names of the sinks, for the report."""
        self._keys: dict[bytes, list[bytes]] = {}

    def report(self, what: str, sink: int | None, partition: int | None, detail: str) -> None:
        """Add a repair to the report.

        Raises ``StoreCorrupt`` for a replica: its journal has what is damaged here.
        """
        if self.state.store.is_replica():
            raise StoreCorrupt(None, f"{what}: {detail}; use an empty directory, which is filled from the journal")
        name = "" if sink is None else self.names.get(sink, str(sink))
        self.reported.append(RepairReport(what, name, partition, detail))

    def add(self, kind: Kind[Any], key: bytes) -> None:
        """Note that the value of a key is damaged."""
        self._keys.setdefault(kind.prefix, []).append(key)

    def keys(self, kind: Kind[Any]) -> list[bytes]:
        """Return the keys of a kind with damaged values."""
        return self._keys.get(kind.prefix, [])

    def has(self, key: bytes) -> bool:
        """Return whether the value of a key of the meta family is damaged, or in a range that cannot be read."""
        return key in self._keys.get(key[:1], ()) or self.state.is_lost(key)

    def reports(self, kind: Kind[Any]) -> bool:
        """Return whether a value of the store as a whole is damaged, which is reported."""
        damaged = self.state.is_damaged(kind)
        if damaged:
            self.report(kind.name, None, None, kind.damaged)
        return damaged

    def replace(self, kind: Kind[Any], key: bytes, writes: list[Write]) -> Any:
        """Report and repair one damaged value by the rule of its kind; returns the value that takes its place."""
        assert kind.replaced is not None, kind.name
        parts = kind.parts(key)
        replaced = kind.replaced(*parts)
        partition = parts[1] if "partition" in kind.names else None
        self.report(kind.name, parts[0], partition, replaced.detail)
        if replaced.write is not None:
            writes.append(replaced.write)
        return replaced.value
