"""Owners of a journal: what is confirmed is in the journal in order, and nothing is confirmed after a fence."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.storage.replication import owner as owners
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.owner import Fenced, Owner, fence
from forebay.broker.storage.replication.pieces import Piece, Pieces
from forebay.broker.storage.replication.record import HEADER_BYTES, Header, RecordKind
from forebay.broker.storage.replication.record import encode as encode_record
from forebay.broker.storage.store.contract import Family, Put
from forebay.errors.reasons import Reason
from tests.support.storage.journals import batch_of, read_all, take_over


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def owner(engine: MemoryEngine) -> Iterator[Owner]:
    made = take_over(engine, b"a")
    yield made
    made.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "CHUNK_BYTES", 16)


def test_groups_are_read_back_in_their_order(engine: MemoryEngine, owner: Owner) -> None:
    for number in range(5):
        owner.append(batch_of(number))

    assert read_all(engine) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("small_chunks")
def test_a_group_of_many_chunks_is_read_back_as_one_batch(engine: MemoryEngine, owner: Owner) -> None:
    owner.append(encode(Batch([(b"page", (b"x" * 100, b"y" * 100))], [Put(Family.META, b"number", b"\0" * 7 + b"\7")])))

    assert read_all(engine) == [7]
    assert owner.position == len(engine.records) > owners.CHUNKS_AT_ONCE


@pytest.mark.parametrize(("size", "chunks"), [(1, 1), (100, 1), (101, 2), (301, 4), (400, 4), (401, 5)])
def test_a_group_is_cut_into_as_few_equal_chunks_as_possible(
    engine: MemoryEngine, owner: Owner, monkeypatch: pytest.MonkeyPatch, size: int, chunks: int
) -> None:
    monkeypatch.setattr(owners, "CHUNK_BYTES", 100)

    owner.append(Pieces.of([bytes(size)]))

    bodies = [len(record) - HEADER_BYTES for position, record in sorted(engine.records.items()) if position]
    assert len(bodies) == chunks
    assert sum(bodies) == size
    assert bodies[0] - bodies[-1] < chunks


def test_an_append_whose_answer_is_lost_is_confirmed_and_read_once(engine: MemoryEngine, owner: Owner) -> None:
    engine.lost_answers = 1

    owner.append(batch_of(1))
    owner.append(batch_of(2))

    assert read_all(engine) == [1, 2]
    assert len(engine.records) == 3


def test_an_append_waits_while_the_engine_is_unreachable_and_is_confirmed_when_it_answers(
    engine: MemoryEngine, owner: Owner
) -> None:
    engine.away = True
    waiting = threading.Thread(target=owner.append, args=[batch_of(1)])
    waiting.start()
    until = time.monotonic() + 10
    while owner.away_since is None and time.monotonic() < until:
        waiting.join(0.01)
    assert waiting.is_alive()

    engine.away = False
    waiting.join(10)

    assert not waiting.is_alive()
    assert owner.away_since is None
    assert read_all(engine) == [1]
    assert owner.resends > 0


def test_an_owner_that_waits_for_its_engine_logs_the_address_once(
    engine: MemoryEngine, owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create, failures = engine.create, [EngineAway("no route", engine.address)]

    def create_later(position: int, pieces: Sequence[Piece]) -> bool:
        if failures:
            raise failures.pop()
        return create(position, pieces)

    monkeypatch.setattr(engine, "create", create_later)

    owner.append(batch_of(1))

    [said] = [line for line in caplog.messages if "appends wait" in line]
    assert said == "journal does not answer, appends wait journal=memory:// cause=no route"


def test_an_owner_whose_engine_answers_repeats_no_request(engine: MemoryEngine, owner: Owner) -> None:
    owner.append(batch_of(1))

    assert owner.resends == 0


def test_an_owner_tells_a_full_engine_from_one_that_does_not_answer(engine: MemoryEngine, owner: Owner) -> None:
    def until_outage(is_full: bool) -> JournalOutage:
        until = time.monotonic() + 10
        while (found := owner.outage()) is None or found.is_full is not is_full:
            assert time.monotonic() < until
            waiting.join(0.01)
        return found

    assert owner.outage() is None
    engine.full = True
    waiting = threading.Thread(target=owner.append, args=[batch_of(1)])
    waiting.start()
    full = until_outage(is_full=True)
    engine.away, engine.full = True, False
    away = until_outage(is_full=False)
    engine.away = False
    waiting.join(10)

    assert (full.reason, full.cause) == (Reason.JOURNAL_FULL, "it has no room")
    assert (away.reason, away.cause) == (Reason.JOURNAL_AWAY, "it is switched off")
    assert away.seconds >= full.seconds
    assert owner.outage() is None
    assert read_all(engine) == [1]


def test_an_owner_notes_the_room_of_its_engine_with_each_append(engine: MemoryEngine, owner: Owner) -> None:
    engine.free = 10
    owner.append(batch_of(1))
    low = owner.outage(11)
    engine.free = 11
    owner.append(batch_of(2))

    assert low == JournalOutage(True, 0.0, "10 bytes are free, 11 are reserved")
    assert owner.outage(11) is None


def test_an_append_without_an_answer_is_an_outage_although_no_request_has_failed(engine: MemoryEngine) -> None:
    """A mount whose server is gone answers nothing at all."""
    now = 100.0
    found: list[JournalOutage | None] = []
    fence(engine, 1, b"a" * 16, "", lambda: 0)
    owner = Owner(engine, 1, b"a" * 16, 1, lambda: now)

    def hang(position: int, record: bytes) -> None:
        nonlocal now
        for _ in range(2):
            now += owners.UNANSWERED_S - 1
            found.append(owner.outage())

    engine.before_create = hang
    owner.append(batch_of(1))

    assert found == [None, JournalOutage(False, 2 * (owners.UNANSWERED_S - 1), "an append has no answer yet")]
    assert owner.outage() is None
    owner.close()


def test_a_device_that_does_not_say_how_much_room_it_has_is_an_outage_too(engine: MemoryEngine) -> None:
    now = 100.0
    found: list[JournalOutage | None] = []
    fence(engine, 1, b"a" * 16, "", lambda: 0)
    owner = Owner(engine, 1, b"a" * 16, 1, lambda: now)

    def hang() -> int | None:
        nonlocal now
        now += owners.UNANSWERED_S
        found.append(owner.outage())
        return None

    engine.free_bytes = hang  # type: ignore[method-assign]
    owner.append(batch_of(1))

    assert found == [JournalOutage(False, owners.UNANSWERED_S, "an append has no answer yet")]
    assert owner.outage() is None
    owner.close()


def test_an_outage_whose_end_another_thread_has_noted_does_not_fail_the_append(engine: MemoryEngine) -> None:
    """Threads of several chunks see the journal answer at the same time."""
    made: list[Owner] = []

    def clock() -> float:
        for each in made:
            each.away_since = None
        return 100.0

    fence(engine, 1, b"a" * 16, "", lambda: 0)
    owner = Owner(engine, 1, b"a" * 16, 1, clock)
    engine.lost_answers = 1
    made.append(owner)

    owner.append(batch_of(1))

    assert read_all(engine) == [1]
    assert owner.away_since is None
    owner.close()


def test_the_time_of_a_confirmation_is_that_of_its_request(engine: MemoryEngine) -> None:
    """A follower may have taken over while the answer was on its way."""
    now = 100.0
    fence(engine, 1, b"a" * 16, "", lambda: 0)
    owner = Owner(engine, 1, b"a" * 16, 1, lambda: now)

    def be_slow(position: int, record: bytes) -> None:
        nonlocal now
        now += 30.0

    now = 110.0
    engine.before_create = be_slow
    owner.append(batch_of(1))

    assert owner.confirmed_at == 110.0
    owner.close()


def test_an_owner_whose_position_has_a_record_that_cannot_be_read_confirms_nothing_more(
    engine: MemoryEngine, owner: Owner
) -> None:
    """It may have been a fence."""
    position = owner.position
    engine.records[position] = b"damaged"

    for _ in range(2):
        with pytest.raises(Fenced, match=rf"record {position} of memory:// cannot be read"):
            owner.append(batch_of(1))

    assert engine.records[position] == b"damaged"


def test_an_owner_that_is_ended_while_the_engine_is_unreachable_confirms_nothing(
    engine: MemoryEngine, owner: Owner
) -> None:
    engine.away = True
    threading.Timer(0.1, owner.end).start()

    with pytest.raises(Fenced, match="ended"):
        owner.append(batch_of(1))


def test_a_fenced_owner_confirms_nothing_more(engine: MemoryEngine, owner: Owner) -> None:
    owner.append(batch_of(1))
    later = take_over(engine, b"b")

    for _ in range(2):
        with pytest.raises(Fenced, match="2 is above 1"):
            owner.append(batch_of(2))

    later.append(batch_of(3))
    assert read_all(engine) == [1, 3]
    later.close()


@pytest.mark.usefixtures("small_chunks")
def test_chunks_that_fit_after_a_fence_again_are_not_confirmed_singly(engine: MemoryEngine, owner: Owner) -> None:
    """The fence takes the very position of a chunk, and the chunks after it fit again."""
    began = owner.position
    made: list[Owner] = []

    def take_its_place(position: int, record: bytes) -> None:
        if position == began + 1 and not made:
            engine.before_create = lambda position, record: None
            made.append(take_over(engine, b"b", at=began + 1))

    engine.before_create = take_its_place
    with pytest.raises(Fenced):
        owner.append(batch_of(1))

    made[0].append(batch_of(2))
    assert read_all(engine) == [2]
    made[0].close()


def test_groups_that_are_open_at_once_are_confirmed_in_their_order(engine: MemoryEngine, owner: Owner) -> None:
    began = owner.position
    first_is_held, second_is_there = threading.Event(), threading.Event()

    def hold_the_first(position: int, record: bytes) -> None:
        if position == began:
            assert first_is_held.wait(10)
        else:
            second_is_there.set()

    engine.before_create = hold_the_first
    groups = [owner.begin(batch_of(number)) for number in (1, 2)]
    assert second_is_there.wait(10)
    assert owner.groups == 0
    first_is_held.set()

    assert [owner.finish(group) for group in groups] == [began + 1, began + 2]
    assert owner.groups == 2
    assert read_all(engine) == [1, 2]


def test_a_late_record_of_a_fenced_owner_lets_all_open_groups_be_appended_again(
    engine: MemoryEngine, owner: Owner
) -> None:
    """Those after it are there already, and count only behind the one that is missing."""
    later = take_over(engine, b"b")
    late = b"".join(encode_record(Header(RecordKind.CHUNK, 1, owner.identity, 0), batch_of(9).data))
    engine.records[later.position] = late

    groups = [later.begin(batch_of(number)) for number in (1, 2, 3)]
    positions = [later.finish(group) for group in groups]

    assert read_all(engine) == [1, 2, 3]
    assert positions == sorted(positions)
    assert len(engine.records) == later.position == positions[-1]
    later.append(batch_of(4))
    assert read_all(engine) == [1, 2, 3, 4]
    later.close()


def test_a_late_record_before_a_fence_lets_no_open_group_be_confirmed_after_the_fence(engine: MemoryEngine) -> None:
    """Appended again it would be found in the journal, and no reader would take it."""
    old = take_over(engine, b"a")
    owner = take_over(engine, b"b")
    began = owner.position
    engine.records[began] = b"".join(encode_record(Header(RecordKind.CHUNK, 1, old.identity, 0), batch_of(9).data))
    later = take_over(engine, b"c")
    assert later.position == began + 2

    groups = [owner.begin(batch_of(number)) for number in (1, 2, 3)]
    for group in groups:
        with pytest.raises(Fenced, match="3 is above 2"):
            owner.finish(group)

    later.append(batch_of(4))
    assert read_all(engine) == [4]
    for each in (old, owner, later):
        each.close()


def test_a_fence_between_two_open_groups_confirms_the_first_and_not_the_second(
    engine: MemoryEngine, owner: Owner
) -> None:
    """The second one's record is in the journal, after the fence, where it does not count."""
    began = owner.position
    made: list[Owner] = []

    def take_its_place(position: int, record: bytes) -> None:
        if position == began + 1 and not made:
            engine.before_create = lambda position, record: None
            made.append(take_over(engine, b"b", at=began + 1))

    first = owner.begin(batch_of(1))
    assert owner.finish(first) == began + 1
    engine.before_create = take_its_place
    groups = [owner.begin(batch_of(number)) for number in (2, 3)]
    for group in groups:
        with pytest.raises(Fenced):
            owner.finish(group)

    made[0].append(batch_of(4))
    assert read_all(engine) == [1, 4]
    made[0].close()


@pytest.mark.usefixtures("small_chunks")
def test_records_that_wait_for_their_turn_are_not_created_after_a_fence(engine: MemoryEngine, owner: Owner) -> None:
    """The next owner would have to read them, and to append around them."""
    fenced_at, later = owner.position, take_over(engine, b"b")
    before, chunks = len(engine.records), 40 * owners.CHUNKS_AT_ONCE
    fence_is_read, read = threading.Event(), engine.read

    def note(position: int) -> bytes | None:
        found = read(position)
        fence_is_read.set()
        return found

    def wait_for_it(position: int, record: bytes) -> None:
        if position != fenced_at:
            assert fence_is_read.wait(10)

    engine.read = note  # type: ignore[method-assign]
    engine.before_create = wait_for_it
    group = owner.begin(Pieces.of([bytes(chunks * owners.CHUNK_BYTES)]))
    with pytest.raises(Fenced, match="2 is above 1"):
        owner.finish(group)

    assert len(engine.records) - before < chunks // 2
    later.close()


def test_an_owner_without_threads_confirms_nothing(
    engine: MemoryEngine, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)

    with pytest.raises(Fenced, match="can't start new thread"):
        owner.append(batch_of(1))


def test_an_owner_that_confirms_one_open_group_after_the_other_has_no_outage(engine: MemoryEngine) -> None:
    now = 100.0
    fence(engine, 1, b"a" * 16, "", lambda: 0)
    owner = Owner(engine, 1, b"a" * 16, 1, lambda: now)
    groups = [owner.begin(batch_of(number)) for number in (1, 2, 3)]

    now += owners.UNANSWERED_S - 1
    owner.finish(groups[0])
    now += owners.UNANSWERED_S - 1
    slow = owner.outage()
    owner.finish(groups[1])
    now += owners.UNANSWERED_S
    silent = owner.outage()
    owner.finish(groups[2])

    assert slow is None
    assert silent == JournalOutage(False, owners.UNANSWERED_S, "an append has no answer yet")
    assert owner.outage() is None
    owner.close()


def test_the_end_of_a_journal_is_its_first_missing_position_and_a_late_record_of_a_fenced_owner_does_not_count(
    engine: MemoryEngine, owner: Owner
) -> None:
    """A slow record of the former owner lands between those of the next one."""
    owner.append(batch_of(1))
    late = b"".join(encode_record(Header(RecordKind.CHUNK, 1, owner.identity, 1), batch_of(2).data))
    later = take_over(engine, b"b")
    engine.records[later.position] = late

    later.append(batch_of(3))
    later.append(batch_of(4))

    assert read_all(engine) == [1, 3, 4]
    later.close()


def test_a_record_after_a_hole_does_not_end_the_journal(engine: MemoryEngine, owner: Owner) -> None:
    owner.append(batch_of(1))
    engine.records[owner.position + 5] = b"".join(
        encode_record(Header(RecordKind.CHUNK, 1, owner.identity, 1), batch_of(2).data)
    )

    later = take_over(engine, b"b")
    for number in range(3, 9):
        later.append(batch_of(number))

    assert read_all(engine) == [1, 3, 4, 5, 6, 7, 8]
    later.close()


def test_an_owner_creates_and_reads_records_and_deletes_none(engine: MemoryEngine, owner: Owner) -> None:
    """A deleted fence could be created again, by the owner that it has fenced. See the tests of the trim."""
    changed: list[int] = []
    engine.before_trim = changed.append

    owner.append(batch_of(1))
    take_over(engine, b"b").close()
    with pytest.raises(Fenced):
        owner.append(batch_of(2))

    assert not changed


def test_a_fence_overtakes_an_owner_that_appends_as_fast_as_it_reads(engine: MemoryEngine, owner: Owner) -> None:
    attempts = 0

    def append_first(position: int, record: bytes) -> None:
        nonlocal attempts
        if record[4] == RecordKind.FENCE and attempts < 2:
            attempts += 1
            engine.before_create = lambda position, record: None
            owner.append(batch_of(attempts))
            engine.before_create = append_first

    engine.before_create = append_first
    later = take_over(engine, b"b")
    engine.before_create = lambda position, record: None

    with pytest.raises(Fenced):
        owner.append(batch_of(9))
    later.append(batch_of(10))
    assert read_all(engine) == [1, 2, 10]
    later.close()


def test_of_two_that_fence_at_once_one_is_the_owner(engine: MemoryEngine) -> None:
    fence(engine, 1, b"a" * 16, "a:1", lambda: 0)
    fence(engine, 1, b"b" * 16, "b:1", lambda: 1)

    assert read_all(engine) == []
    last = take_over(engine, b"c")
    assert last.epoch == 2
    last.close()


def test_an_orderly_end_is_the_last_record(engine: MemoryEngine, owner: Owner) -> None:
    owner.append(batch_of(1))
    owner.release()

    assert read_all(engine) == [1]
    assert list(engine.records)[-1] == owner.position - 1
