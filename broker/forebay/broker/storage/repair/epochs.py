"""Repair of damaged stages and producers at a start: a stage is whole or it is discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forebay.broker.core.epochs.values import ProducerRecord
from forebay.broker.core.writes import DropProducer, DropStages, Due, PutDue, PutProducer, Write
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.epochs.stage import STAGE, STAGED_PAGE
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.stored_sink import StoredSink

_SLICE = 1_000


def repair_epochs(damage: Damage, journal: Journal, sinks: Mapping[int, StoredSink]) -> list[Write]:
    """Repair the damaged epochs of each sink; returns the writes."""
    writes: list[Write] = []
    bad = {STAGE.parts(key) for key in damage.keys(STAGE)}
    bad |= {STAGED_PAGE.parts(key)[:2] for key in damage.keys(STAGED_PAGE)}
    for number, sink in sinks.items():
        bad |= {(number, stage) for stage in sink.staged if stage not in sink.stages}
        bad |= {(number, stage) for stage, pages in sink.staged.items() if not _whole(list(pages))}
    for number, stage in sorted(bad):
        writes += _discarded(sinks[number], stage)
        detail = "the stage was discarded: its writer stages the epoch again"
        damage.report(STAGE.name, number, None, detail)
    for key in damage.keys(PRODUCER):
        number, name = PRODUCER.parts(key)
        found = _of_last_epoch(journal, number, name)
        if found is not None:
            sinks[number].producers[name] = found
            writes.append(PutProducer(number, found))
            detail = f"`{name}` continues after its last epoch, {found.epoch}"
        else:
            writes.append(DropProducer(number, name))
            detail = f"`{name}` was dropped: a repeated commit is stored twice"
        damage.report(PRODUCER.name, number, None, detail)
    return writes


def _whole(pages: list[tuple[int, int]]) -> bool:
    """Return whether no page is missing: the sequences of each partition begin at 0, without holes."""
    seen: dict[int, int] = {}
    for partition, sequence in sorted(pages):
        if sequence != seen.get(partition, 0):
            return False
        seen[partition] = sequence + 1
    return True


def _discarded(sink: StoredSink, stage: int) -> Iterator[Write]:
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
