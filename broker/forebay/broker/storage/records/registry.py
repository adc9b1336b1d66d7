"""Registry of all kinds of stored values.

Derived from it are the operations of the core's writes, the values that a start reads and repairs, the checks of
`verify`, the deletion of a sink, and the table in the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forebay.broker.core.writes import WHOLE_SINK, DropSink, Due, Write
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.epochs.stage import STAGE, STAGED_PAGE
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION
from forebay.broker.storage.records.kind import Kind, Operations
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.partitions.cursor import CURSOR, TOTALS
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.marks import MARKS
from forebay.broker.storage.records.partitions.reserve import HELD, RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import NEXT_SINK, SINK, SINK_COPY
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.records.sinks.writer import SLOT, WRITER
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, REALTIME, RESTORED, START, STOPPED, STORE_ID
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import DeleteRange, Family, Operation, Store

KINDS: Final[tuple[Kind[Any], ...]] = (
    *(BULK_PAGE, SMALL_PAGE, ENTRY, SINK_COPY),
    *(STORE_ID, START, HIGHEST, NEXT_SINK, AGE, COUNTING, STOPPED, POSITION, RESTORED, REALTIME, JOURNAL_POSITION),
    *(SINK, TAIL, HEAD, CURSOR, WRITER, SLOT, GAP, DUE, QUARANTINE, SUBSCRIPTION, TOTALS, RESERVE, MARKS, HELD),
    *(STAGE, STAGED_PAGE, PRODUCER, EPOCH, SCHEMA, LARGE_COMMIT, STAGE_ORDER),
)
BY_PREFIX: Final = {kind.prefix: kind for kind in KINDS if kind.family is Family.META}
OF_SINKS: Final = tuple(kind for kind in BY_PREFIX.values() if kind.layout.startswith("sink "))
"""Kinds that are deleted with their sink."""


def _drop_sink(write: DropSink) -> list[Operation]:
    """Delete all state of a sink at once, and leave its pages to the ledger."""
    sink = write.sink
    whole = (Due(sink, WHOLE_SINK, bulk, first=0, last=0, size=0) for bulk in (True, False))
    return [
        DeleteRange(Family.INDEX, *ENTRY.under(sink)),
        SINK_COPY.delete(SINK_COPY.key(0, sink, 0)),
        *(kind.delete_range(kind.under(sink)) for kind in OF_SINKS),
        *(DUE.put(DUE.key(sink, WHOLE_SINK, due.bulk, 0), due) for due in whole),
    ]


OPERATIONS: Final[dict[type[Write], Operations]] = {
    DropSink: _drop_sink,
    **{write: operations for kind in KINDS for write, operations in kind.operations()},
}
"""Operations of the store for each write of the core."""


def damaged_values(store: Store) -> Iterator[str]:
    """Return a sentence for each value of the meta family that is damaged or of an unknown kind."""
    try:
        for key, value in scan_all(store, Family.META, b"", b"\xff" * 64):
            problem = _problem(key, value)
            if problem is not None:
                yield problem
    except StoreCorrupt as damage:
        yield f"state could not be read completely: {damage}"


def _problem(key: bytes, value: bytes) -> str | None:
    kind = BY_PREFIX.get(key[:1])
    if kind is None:
        return f"value of an unknown kind at key {key.hex()}"
    try:
        kind.codec.decode(value)
    except Undecodable as damage:
        return f"{kind.name} at key {key.hex()}: {damage}"
    return None
