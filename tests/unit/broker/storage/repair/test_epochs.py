"""Repair of damaged stages, staged pages, producers and epochs at a start."""

from __future__ import annotations

import zlib

import pytest

from forebay.broker.core.epochs.values import (
    Content,
    EpochPart,
    EpochRecord,
    ProducerRecord,
    StagedPage,
    StageRecord,
    digest,
)
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    DropSink,
    Due,
    PageWrite,
    PutEntry,
    PutEpoch,
    PutHead,
    PutLargeCommit,
    PutProducer,
    PutSink,
    PutStage,
    PutStaged,
    PutTail,
    SinkRecord,
    Write,
)
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.epochs.stage import STAGE, STAGED_PAGE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.store.contract import Delete, Family, Put
from forebay.broker.storage.store.memory import MemoryStore

RECORD = SinkRecord(1, "orders", "abc", DEFAULTS, 7)
NOISE = b"\x93\x01\xfe\x00\x7a\xc4\x55\x10\x99\x42"
STAGES = [StageRecord((1 << 40) + n, "query", "orders", 5, f"t{n}", "run-2", 2) for n in (1, 2)]
PARTS = (EpochPart(0, 0, 3, 1, 30, 1, 1), EpochPart(1, 3, 4, 1, 40, 2, 2))
EPOCHS = [
    EpochRecord("query", "orders", n, "run-1", 1_000 + n, 1, digest([f"t{n}"]), PARTS, f"kind:{n}") for n in (3, 4)
]
STORED_PRODUCER = ProducerRecord("query", "orders", "run-1", 1, 4, "run-1", 1_004, digest(["t4"]), 7, "kind:4")


def staged(number: int) -> tuple[StagedPage, PageWrite]:
    entry = Entry(0, 1, (1 << 40) + number, False, 4, 1, 0, 0, 0, 0)
    return StagedPage(entry.number, False, 1, 1, 4, 9), PageWrite(1, 0, entry, Body(9, b"body"), STAGES[0].number)


def filled() -> MemoryStore:
    """A store with a sink of two stages, two pages each, and two epochs."""
    store = MemoryStore()
    journal = recover(store).journal
    writes: list[Write] = [
        PutSink(RECORD, fresh=True),
        PutProducer(1, STORED_PRODUCER),
        *(PutEpoch(1, e) for e in EPOCHS),
    ]
    pages: list[PageWrite] = []
    for at, stage in enumerate(STAGES):
        writes.append(PutStage(1, stage))
        for sequence in range(2):
            page, write = staged(10 * (at + 1) + sequence)
            pages.append(write)
            writes.append(PutStaged(1, stage.number, 0, sequence, page))
    journal.commit(pages, writes)
    return store.reopen()


def found_after(change: Put | Delete) -> tuple[Recovered, MemoryStore]:
    store = filled()
    store.write([change])
    found = recover(store)
    return found, store


def test_intact_producers_and_stages_are_recovered_as_they_were_stored() -> None:
    [orders] = recover(filled()).sinks

    assert orders.producers == {"query": STORED_PRODUCER}
    assert orders.stages == {stage.number: stage for stage in STAGES}
    assert {number: sorted(pages) for number, pages in orders.staged.items()} == {
        stage.number: [(0, 0), (0, 1)] for stage in STAGES
    }


@pytest.mark.parametrize(
    "change",
    [
        Put(Family.META, STAGE.key(1, STAGES[0].number), NOISE),
        Delete(Family.META, STAGE.key(1, STAGES[0].number)),
        Put(Family.META, STAGED_PAGE.key(1, STAGES[0].number, 0, 1), NOISE),
        Delete(Family.META, STAGED_PAGE.key(1, STAGES[0].number, 0, 0)),
    ],
    ids=["stage", "stage is missing", "staged page", "staged page is missing"],
)
def test_a_damaged_stage_is_discarded_and_the_other_one_stays(change: Put | Delete) -> None:
    found, store = found_after(change)

    [orders] = found.sinks
    assert set(orders.stages) == set(orders.staged) == {STAGES[1].number}
    left = [key for key, _ in store.scan(Family.META, *STAGED_PAGE.under(1), 100)]
    assert {STAGED_PAGE.parts(key)[1] for key in left} == {STAGES[1].number}
    assert {due.first for due in found.due} <= {(1 << 40) + 10, (1 << 40) + 11}
    assert found.due
    assert [mended.what for mended in found.repairs] == ["stage"]
    assert recover(store.reopen()).repairs == ()


def test_a_damaged_producer_continues_after_its_last_epoch() -> None:
    found, store = found_after(Put(Family.META, PRODUCER.key(1, "query"), NOISE))

    assert found.sinks[0].producers == {"query": ProducerRecord.of(EPOCHS[-1])}
    assert found.sinks[0].producers["query"].content == Content(7, "kind:4")
    assert [mended.what for mended in found.repairs] == ["producer"]
    assert recover(store.reopen()).repairs == ()


def test_one_without_an_epoch_is_forgotten() -> None:
    store = filled()
    store.write([Put(Family.META, PRODUCER.key(1, "query"), NOISE)])
    store.write([Delete(Family.META, EPOCH.key(1, "query", epoch.epoch)) for epoch in EPOCHS])

    found = recover(store)

    assert found.sinks[0].producers == {}
    assert store.scan(Family.META, *PRODUCER.under(1), 10) == []


def test_a_damaged_epoch_keeps_nothing_from_starting_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    found, _ = found_after(Put(Family.META, EPOCH.key(1, "query", 3), NOISE))

    assert found.repairs == ()
    assert found.journal.epochs(1, "query", 0, 10) == EPOCHS[1:]
    assert "epoch was damaged" in caplog.text


def test_a_sink_that_is_dropped_takes_all_of_its_epochs_with_it() -> None:
    store = filled()
    journal = recover(store).journal

    journal.commit([], [DropSink(1)])

    for kind in (STAGE, STAGED_PAGE, PRODUCER, EPOCH, STAGE_ORDER):
        assert store.scan(Family.META, *kind.under(1), 10) == []
    assert recover(store.reopen()).sinks == ()
    assert {(due.sink, due.bulk) for due in recover(store.reopen()).due} == {(1, True), (1, False)}


def test_the_pages_of_a_discarded_stage_are_due() -> None:
    found, _ = found_after(Put(Family.META, STAGE.key(1, STAGES[0].number), NOISE))

    assert sorted(found.due, key=lambda due: due.first) == [
        Due(1, 0, False, (1 << 40) + 10, (1 << 40) + 10, 4),
        Due(1, 0, False, (1 << 40) + 11, (1 << 40) + 11, 4),
    ]


@pytest.mark.parametrize("damage", ["tail", "end of the log"])
def test_the_pages_of_an_interrupted_commit_are_not_placed_by_a_repair(damage: str) -> None:
    store = filled()
    journal = recover(store).journal
    tail = Tail(7, 40, 1, 1_000, 100)
    first = Entry(0, 7, 5, False, 4, 1, 1_000, 100, 0, 0)
    page = PageWrite(1, 0, first, Body(zlib.crc32(b"body"), b"body"))
    ahead = [Entry(7 + n, 1, (1 << 40) + 10 + n, False, 4, 1, 1_001, 101, 4, 1) for n in range(2)]
    journal.commit([page], [PutEntry(1, 0, first), PutTail(1, 0, tail), PutHead(1, 0, Head())])
    journal.commit([], [PutLargeCommit(1, (("query", 5),)), *(PutEntry(1, 0, entry) for entry in ahead)])
    if damage == "tail":
        store.write([Put(Family.META, TAIL.key(1, 0), NOISE)])
    else:
        journal.store.mark((journal.records + 3, journal.start_count))

    found = recover(store.reopen())

    bases = [entry.base for entry in found.journal.entries(1, 0, 0, 1_000, 100)]
    assert bases == [0]
    assert sum(len(pages) for pages in found.sinks[0].staged.values()) == 4
