"""Repair of damaged stages and producers at a start: see the table in ``partitions``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from forebay.broker.core.epochs.values import ProducerRecord
from forebay.broker.core.writes import DropProducer, DropStages, Due, PutDue, PutProducer, Write
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records import keys
from forebay.broker.storage.state import StoredSink

_SLICE = 1_000


class Telling(Protocol):
    """Receiver of the notes about repairs."""

    @property
    def journal(self) -> Journal: ...

    def tell(self, what: str, sink: int | None, partition: int | None, detail: str) -> None:
        """Note a repair."""
        ...


def mend_epochs(mending: Telling, sinks: Mapping[int, StoredSink], damaged: dict[bytes, list[bytes]]) -> list[Write]:
    """Repair the damaged epochs of each sink; returns the writes. Removes them from ``damaged``."""
    writes: list[Write] = []
    bad = {
        (keys.sink_of(key), keys.stage_of(key)) for kind in (keys.STAGE, keys.STAGED) for key in damaged.pop(kind, ())
    }
    for number, sink in sinks.items():
        bad |= {(number, stage) for stage in sink.staged if stage not in sink.stages}
        bad |= {(number, stage) for stage, pages in sink.staged.items() if not _whole(list(pages))}
    for number, stage in sorted(bad):
        writes += _thrown_away(sinks[number], stage)
        mending.tell("stage", number, None, "what was staged is thrown away: its writer stages the epoch again")
    for key in damaged.pop(keys.PRODUCER, ()):
        number, name = keys.writer_of(key)
        found = _of_last_epoch(mending.journal, number, name)
        if found is not None:
            sinks[number].producers[name] = found
            writes.append(PutProducer(number, found))
            mending.tell("producer", number, None, f"`{name}` goes on behind its last epoch, {found.epoch}")
        else:
            writes.append(DropProducer(number, name))
            mending.tell("producer", number, None, f"`{name}` is forgotten: what it commits again comes twice")
    return writes


def _whole(pages: list[tuple[int, int]]) -> bool:
    """No page is missing: the sequences of each partition begin at 0 and leave none out."""
    seen: dict[int, int] = {}
    for partition, sequence in sorted(pages):
        if sequence != seen.get(partition, 0):
            return False
        seen[partition] = sequence + 1
    return True


def _thrown_away(sink: StoredSink, stage: int) -> Iterator[Write]:
    sink.stages.pop(stage, None)
    for (partition, _), page in sink.staged.pop(stage, {}).items():
        yield PutDue(Due(sink.record.id, partition, page.bulk, page.number, page.number, page.size))
    yield DropStages(sink.record.id, stage, stage)


def _of_last_epoch(journal: Journal, sink: int, name: str) -> ProducerRecord | None:
    last: ProducerRecord | None = None
    first = 0
    while found := journal.epochs(sink, name, first, _SLICE):
        last = ProducerRecord.of(found[-1])
        first = found[-1].epoch + 1
    return last
