"""Followers: what they apply, when they take over, and what they refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from forebay.broker.core.writes import PutAge
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import AGE, HIGHEST
from forebay.broker.storage.replication import read_ahead
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.follower import IDENTITY, PAUSE_MIN_S, POLL_S, Follower, Takeover
from forebay.broker.storage.replication.followers.observed_age import ObservedAge
from forebay.broker.storage.replication.followers.progress import FollowerProgress
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.owner import Owner
from forebay.broker.storage.replication.reader import Reader, Trimmed
from forebay.broker.storage.replication.record import ANY_OTHER, Header, RecordKind, decode_header
from forebay.broker.storage.replication.record import encode as encode_record
from forebay.broker.storage.replication.replica import Replica, ReplicaUnusable, check_identity
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.journals import NUMBER, NumberCheckpoints, NumberReplica, batch_of, read_history, take_over

AFTER_S = 10.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stop(threading.Event):
    """Set after some checks of the end of the journal; each advances the clock by a second."""

    def __init__(self, clock: Clock, looks: int) -> None:
        super().__init__()
        self._clock, self._left = clock, looks

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now += 1
        self._left -= 1
        if self._left <= 0:
            self.set()
        return self.is_set()


class EndEngine(MemoryEngine):
    """Calls back after a read that found the end of the journal again, and nothing else before it."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end: Callable[[], None] = lambda: None
        self._end = -1

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        is_beyond = position > 0 and position - 1 not in self.records  # read at the same time as the end
        found = super().read(position)
        if is_beyond:
            return found
        before, self._end = self._end, -1 if found is not None else position
        if before == position == self._end:
            self.at_end()
        return found

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``; a search ahead is no read of the end."""
        return super().read(position)


def fences_in(engine: MemoryEngine) -> int:
    return [decode_header(record).kind for record in engine.records.values()].count(RecordKind.FENCE)


@contextmanager
def replica_in(directory: Path) -> Iterator[Replica]:
    with closing(RocksStore(directory)) as store:
        yield Replica(store)


def follow(
    engine: MemoryEngine,
    directory: Path,
    *,
    looks: int = 1,
    clock: Clock | None = None,
    handed_over: bool = False,
) -> Owner | None:
    """Follow in a directory until the journal is owned, or for some checks of its end."""
    clock = clock or Clock()
    with replica_in(directory) as replica:
        reader = Reader(engine, replica.place)
        return Follower(reader, replica, directory, Takeover(AFTER_S, "here:1", handed_over), clock).follow(
            Stop(clock, looks)
        )


def append_age(owner: Owner, age_us: int) -> None:
    owner.append(encode(Batch([], [AGE.put(AGE.key(), PutAge(age_us, 1, b"another machine", 1))])))


def value_in(directory: Path) -> bytes | None:
    with closing(RocksStore(directory)) as store:
        return store.get_many(Family.META, [NUMBER])[0]


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def test_a_journal_without_a_record_is_owned_at_once(engine: MemoryEngine, tmp_path: Path) -> None:
    owner = follow(engine, tmp_path)

    assert owner is not None
    assert owner.epoch == 1
    owner.close()


def test_a_follower_applies_what_the_owner_appends(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        assert follow(engine, tmp_path) is None
        assert value_in(tmp_path) == (1).to_bytes(8, "big")

        owner.append(batch_of(2))
        assert follow(engine, tmp_path) is None

    assert value_in(tmp_path) == (2).to_bytes(8, "big")


def test_a_follower_takes_over_after_the_silence_and_not_before(engine: MemoryEngine, tmp_path: Path) -> None:
    former = take_over(engine, b"a")
    clock = Clock()

    assert follow(engine, tmp_path, looks=int(AFTER_S) - 1, clock=clock) is None
    owner = follow(engine, tmp_path, looks=int(AFTER_S) + 3, clock=clock)

    assert owner is not None
    assert owner.epoch == 2
    assert read_history(engine)[0].endpoint == "here:1"
    for each in (former, owner):
        each.close()


def test_a_follower_reads_when_the_silence_is_long_enough_not_up_to_a_poll_later(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    clock = Clock()
    began_s = clock.now

    class ExactStop(threading.Event):
        """Lets exactly the time pass that is waited for."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            assert 0.0 < timeout <= POLL_S
            clock.now += timeout
            return False

    with closing(take_over(engine, b"a")), replica_in(tmp_path) as replica:
        follower = Follower(Reader(engine, replica.place), replica, tmp_path, Takeover(AFTER_S + 0.1, "here:1"), clock)
        owner = follower.follow(ExactStop())

    assert owner is not None
    owner.close()
    assert clock.now - began_s == pytest.approx(follower._wait_s, abs=2 * PAUSE_MIN_S)


def test_an_age_of_the_owner_counts_from_when_the_follower_has_read_it_unless_it_may_be_old(tmp_path: Path) -> None:
    engine, clock = EndEngine(), Clock()
    with closing(take_over(engine, b"a")) as owner, replica_in(tmp_path) as replica:
        append_age(owner, 1)
        observed: list[ObservedAge | None] = []

        def go_on() -> None:
            observed.append(follower.observed_age)
            append_age(owner, 2)
            engine.at_end = lambda: observed.append(follower.observed_age)

        engine.at_end = go_on
        reader = Reader(engine, replica.place)
        follower = Follower(reader, replica, tmp_path, Takeover(AFTER_S, "here:1"), clock)
        began_s = clock.now
        assert follower.follow(Stop(clock, 6)) is None

    assert observed[0] is None
    assert observed[-1] is not None
    assert observed[-1].age_us == 2
    assert began_s * 1_000_000 < observed[-1].at_us <= clock.now * 1_000_000


def test_a_follower_that_never_finds_the_end_knows_its_lag_by_positions_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 1)
    engine, clock = MemoryEngine(), Clock()
    progress = FollowerProgress(clock)
    lags: list[float] = []

    class LaggingReplica(Replica):
        """Applies a batch in a second, in which the owner appends another one, until there are 300."""

        def apply(self, batch: Batch, place: ReaderPosition) -> None:
            """See ``Replica.apply``."""
            super().apply(batch, place)
            clock.now += 1.0
            lags.append(progress.lag_s)
            if owner.groups < 300:
                owner.append(batch_of(owner.groups))

    with closing(take_over(engine, b"a")) as owner, closing(RocksStore(tmp_path)) as store:
        for number in range(66):
            owner.append(batch_of(number))
        replica = LaggingReplica(store)
        reader = Reader(engine, replica.place)
        follower = Follower(reader, replica, tmp_path, Takeover(AFTER_S, "here:1"), clock, None, progress)
        assert follower.follow(Stop(clock, 1)) is None

    assert len(lags) == 300
    assert min(lags[150:250]) >= 66.0, "so far behind it is"
    assert max(lags[150:250]) <= 85.0
    assert progress.lag_s < 2.0


def test_a_position_ahead_that_was_trimmed_says_nothing_about_the_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 4)
    clock = Clock()
    progress = FollowerProgress(clock)
    clock.now += 50.0
    follows = False

    class TrimmingEngine(MemoryEngine):
        """Is trimmed by a checkpoint before the first search for its end."""

        def peek(self, position: int) -> bytes | None:
            """See ``Engine.peek``."""
            nonlocal follows
            if follows:
                follows = False
                another = NumberReplica(self)
                another.read()
                NumberCheckpoints(self).make(another)
            return super().peek(position)

    engine = TrimmingEngine()
    with closing(take_over(engine, b"a")) as owner, replica_in(tmp_path) as replica:
        for number in range(200):
            owner.append(batch_of(number))
        follows = True
        reader = Reader(engine, replica.place)
        follower = Follower(reader, replica, tmp_path, Takeover(AFTER_S, "here:1"), clock, None, progress)
        with pytest.raises(Trimmed):
            follower.follow(Stop(clock, 1))
    progress.reached(150, end_at_s=None)

    assert progress.lag_s == 50.0, "what was appended after the checkpoint is not read"


def test_a_read_that_was_slow_is_no_silence_of_the_owner(tmp_path: Path) -> None:
    engine, clock = EndEngine(), Clock()
    with closing(take_over(engine, b"a")) as owner:

        def answer_late() -> None:
            clock.now += AFTER_S + 2
            owner.append(batch_of(owner.groups))
            if owner.groups == 3:
                engine.at_end = lambda: None

        engine.at_end = answer_late
        assert follow(engine, tmp_path, looks=5, clock=clock) is None

    assert fences_in(engine) == 1
    assert value_in(tmp_path) == (2).to_bytes(8, "big")


def test_an_engine_that_did_not_answer_a_read_ahead_is_no_silence_of_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 1)
    clock = Clock()
    follows, is_applied = False, threading.Event()
    answers_again_s = 0.0

    class SilentOnceEngine(MemoryEngine):
        """Does not answer the first read at the end, for longer than the silence of an owner."""

        def read(self, position: int) -> bytes | None:
            """See ``Engine.read``."""
            nonlocal answers_again_s
            if follows and position == 1 and not answers_again_s:
                assert is_applied.wait(30)
                clock.now += 2 * AFTER_S
                answers_again_s = clock.now
                raise EngineAway("no answer")
            return super().read(position)

    class NotingStop(Stop):
        """Notes that the records before the end are applied."""

        checks = 0

        def is_set(self) -> bool:
            """See ``Event.is_set``."""
            self.checks += 1
            if self.checks > 1:
                is_applied.set()
            return super().is_set()

    engine = SilentOnceEngine()
    with closing(take_over(engine, b"a")), replica_in(tmp_path) as replica:
        follows = True  # it reads the fence, and ahead what is after it
        reader = Reader(engine, replica.place)
        follower = Follower(reader, replica, tmp_path, Takeover(AFTER_S, "here:1"), clock)
        owner = follower.follow(NotingStop(clock, 100))

    assert owner is not None
    owner.close()
    assert clock.now - answers_again_s >= AFTER_S


def test_a_takeover_is_given_up_where_the_owner_appends_before_the_fence(tmp_path: Path) -> None:
    engine, clock = EndEngine(), Clock()
    with closing(take_over(engine, b"a")) as owner:

        def append_late() -> None:
            engine.at_end = lambda: None
            owner.append(batch_of(1))

        def be_silent() -> None:
            clock.now += AFTER_S + 2
            engine.at_end = append_late

        engine.at_end = be_silent
        assert follow(engine, tmp_path, looks=5, clock=clock) is None
        assert owner.groups == 1
        owner.append(batch_of(2))

    assert fences_in(engine) == 1
    assert value_in(tmp_path) == (1).to_bytes(8, "big")


def test_a_follower_that_never_comes_to_the_end_releases_space_and_stops_when_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_RECORDS", 2)
    engine, clock = MemoryEngine(), Clock()
    stop = threading.Event()
    key = BULK_PAGE.key(1, 1, 0)
    appended = 0

    class BusyEngine(MemoryEngine):
        """The owner appends another record during each read, once the follower has been at the end."""

        def read(self, position: int) -> bytes | None:
            """See ``Engine.read``."""
            nonlocal appended
            with appending:
                if waits and appended < 100:
                    appended += 1
                    owner.append(encode(Batch([], [Delete(Family.BULK, key)])) if appended == 3 else batch_of(appended))
                    if appended == 20:
                        stop.set()
            return super().read(position)

    appending = threading.Lock()
    waits = 0

    def wait(timeout: float | None = None) -> bool:
        nonlocal waits
        waits += 1
        return stop.is_set()

    monkeypatch.setattr(stop, "wait", wait)
    engine = BusyEngine()
    with closing(take_over(engine, b"a")) as owner, replica_in(tmp_path) as replica:
        owner.append(encode(Batch([(key, b"x")], [HIGHEST.put(HIGHEST.key(), (1, 1))])))
        reader = Reader(engine, replica.place)
        assert Follower(reader, replica, tmp_path, Takeover(AFTER_S, ""), clock).follow(stop) is None

    assert waits == 1
    assert 20 <= appended < 25
    assert not list((tmp_path / "bulk").iterdir())


def test_a_replica_that_is_ahead_of_its_journal_takes_nothing_over(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        for number in (1, 2):
            owner.append(batch_of(number))
        assert follow(engine, tmp_path) is None
    last = max(engine.records)
    del engine.records[last]
    before = dict(engine.records)

    with pytest.raises(ReplicaUnusable, match=rf"the replica has record {last}, and memory:// does not"):
        follow(engine, tmp_path, looks=int(AFTER_S) + 3)

    assert engine.records == before


def test_an_engine_that_is_unreachable_is_no_silence_of_the_owner(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")):
        engine.away = True

        assert follow(engine, tmp_path, looks=5 * int(AFTER_S)) is None


def test_a_follower_whose_engine_is_unreachable_logs_the_address_once(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(position: int) -> bytes | None:
        raise EngineAway("no route", engine.address)

    with closing(take_over(engine, b"a")):
        monkeypatch.setattr(engine, "read", read)
        monkeypatch.setattr(engine, "peek", read)
        assert follow(engine, tmp_path, looks=3) is None

    [said] = [line for line in caplog.messages if "does not answer" in line]
    assert said == "journal does not answer journal=memory:// cause=no route"


def test_an_owner_that_has_ended_in_order_is_followed_at_once(engine: MemoryEngine, tmp_path: Path) -> None:
    former = take_over(engine, b"a")
    former.release()
    former.close()

    owner = follow(engine, tmp_path)

    assert owner is not None
    owner.close()


def test_the_directory_of_the_owner_takes_over_at_once(engine: MemoryEngine, tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        owner = follow(engine, tmp_path)
        assert owner is not None
        assert owner.epoch == epoch
        owner.close()


def test_batches_with_bulk_files_are_applied_once_though_a_crash_came_between_file_and_batch(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    key = BULK_PAGE.key(1, 1, 0)
    batch = Batch([(key, b"page")], [HIGHEST.put(HIGHEST.key(), (1, 1))])
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        assert follow(engine, tmp_path) is None
        owner.append(encode(batch))
    with closing(RocksStore(tmp_path)) as store:
        store.ingest([(key, b"page of a crash")])

    assert follow(engine, tmp_path) is None

    with closing(RocksStore(tmp_path)) as store:
        assert store.get_many(Family.BULK, [key]) == [b"page"]


@pytest.mark.parametrize(
    ("successor", "is_former", "takes_over"),
    [
        ("", False, True),
        ("", True, True),
        (ANY_OTHER, False, True),
        (ANY_OTHER, True, False),
        ("here:1", False, True),
        ("there:1", False, False),
        ("there:1", True, False),
    ],
)
def test_an_owner_that_ends_says_who_takes_over_at_once_and_others_wait_for_the_silence(
    engine: MemoryEngine, tmp_path: Path, successor: str, is_former: bool, takes_over: bool
) -> None:
    with closing(take_over(engine, b"a")) as former:
        former.append(batch_of(1))
        former.release(successor)
        if is_former:
            (tmp_path / IDENTITY).write_bytes(former.identity)

        at_once = follow(engine, tmp_path)

        assert (at_once is not None) is takes_over
        later = at_once or follow(engine, tmp_path, looks=int(AFTER_S) + 3)
        assert later is not None
        later.close()


@pytest.mark.parametrize("is_released", [False, True])
def test_an_owner_that_has_handed_over_takes_the_journal_back_only_after_the_silence(
    engine: MemoryEngine, tmp_path: Path, is_released: bool
) -> None:
    with closing(take_over(engine, b"a")) as former:
        former.append(batch_of(1))
        if is_released:
            former.release(ANY_OTHER)
        (tmp_path / IDENTITY).write_bytes(former.identity)

        assert follow(engine, tmp_path, handed_over=True) is None
        later = follow(engine, tmp_path, looks=int(AFTER_S) + 3, handed_over=True)
        assert later is not None
        later.close()


def test_a_follower_releases_the_space_of_pages_that_the_owner_deletes(engine: MemoryEngine, tmp_path: Path) -> None:
    keys = [BULK_PAGE.key(number, 1, 0) for number in range(1, 5)]
    with closing(take_over(engine, b"a")) as owner:
        for number, key in enumerate(keys, 1):
            owner.append(encode(Batch([(key, b"x" * 10_000)], [HIGHEST.put(HIGHEST.key(), (number, number))])))
        owner.append(encode(Batch([], [DeleteRange(Family.BULK, keys[0], keys[2])])))
        assert follow(engine, tmp_path) is None

    assert len(list((tmp_path / "bulk").iterdir())) == 2
    with closing(RocksStore(tmp_path)) as store:
        assert [value is not None for value in store.get_many(Family.BULK, keys)] == [False, False, True, True]


def test_a_follower_releases_the_space_that_a_crash_left_deleted(engine: MemoryEngine, tmp_path: Path) -> None:
    key = BULK_PAGE.key(1, 1, 0)
    with closing(take_over(engine, b"a")) as owner:
        owner.append(encode(Batch([(key, b"x")], [HIGHEST.put(HIGHEST.key(), (1, 1))])))
        assert follow(engine, tmp_path) is None
        with closing(RocksStore(tmp_path)) as store:
            store.write([Delete(Family.BULK, key)])
        assert len(list((tmp_path / "bulk").iterdir())) == 1

        assert follow(engine, tmp_path) is None

    assert not list((tmp_path / "bulk").iterdir())


def test_batches_that_a_power_loss_took_from_a_replica_are_read_again(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        for number in range(5):
            owner.append(batch_of(number))
        with replica_in(tmp_path) as replica:
            old = Follower(Reader(engine, replica.place), replica, tmp_path, Takeover(AFTER_S, ""), Clock())
            old.follow(Stop(Clock(), 1))
            [position] = replica.store.get_many(Family.META, [b"\x0b"])
            assert position is not None
            replica.store.write([Delete(Family.META, NUMBER), Delete(Family.META, b"\x0b")])

        assert follow(engine, tmp_path) is None

    assert value_in(tmp_path) == (4).to_bytes(8, "big")


def test_a_directory_with_a_store_of_its_own_is_refused(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)) as store:
        store.commit([], [Put(Family.META, b"x", b"y")])

    with pytest.raises(ReplicaUnusable, match="a store without a journal"), replica_in(tmp_path):
        pass


def test_a_directory_with_the_store_of_another_journal_is_refused(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        follow(engine, tmp_path)
    other = MemoryEngine()
    with replica_in(tmp_path) as replica:
        check_identity(engine, replica)
        with pytest.raises(ReplicaUnusable, match="is empty"):
            check_identity(other, replica)
        with closing(take_over(other, b"b")), pytest.raises(ReplicaUnusable, match="another journal than memory"):
            check_identity(other, replica)


def test_a_journal_whose_first_record_cannot_be_read_is_refused(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")) as owner:
        owner.append(batch_of(1))
        follow(engine, tmp_path)
    engine.records[0] = b"no record"

    with replica_in(tmp_path) as replica, pytest.raises(ReplicaUnusable, match="record 0 of memory:// cannot be read"):
        check_identity(engine, replica)


def test_a_record_that_cannot_be_read_ends_a_follower_with_its_position(engine: MemoryEngine, tmp_path: Path) -> None:
    with closing(take_over(engine, b"a")):
        engine.records[1] = b"no record"

        with pytest.raises(ReplicaUnusable, match=r"record 1 of memory://"):
            follow(engine, tmp_path)


def test_a_batch_that_cannot_be_read_ends_a_follower_with_the_position_of_its_last_record(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    with closing(take_over(engine, b"a")) as owner:
        header = Header(RecordKind.CHUNK, owner.epoch, owner.identity)
        engine.records[owner.position] = b"".join(encode_record(header, [b"no batch"]))

        with pytest.raises(ReplicaUnusable, match=rf"record {owner.position} of memory://"):
            follow(engine, tmp_path)


def test_a_batch_of_an_owner_is_applied_once_it_is_in_the_journal_and_not_after_a_fence(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    clock = Clock()
    with replica_in(tmp_path) as replica:
        reader = Reader(engine, replica.place)
        owner = Follower(reader, replica, tmp_path, Takeover(AFTER_S, ""), clock).follow(Stop(clock, 1))
        assert owner is not None
        store = ReplicatedStore(replica, owner, engine)
        store.commit([], [Put(Family.META, NUMBER, b"1")])
        assert store.get_many(Family.META, [NUMBER]) == [b"1"]

        with closing(take_over(engine, b"b")):
            for _ in range(2):
                with pytest.raises(StoreFailed, match="journal"):
                    store.commit([], [Put(Family.META, NUMBER, b"2")])

        assert store.get_many(Family.META, [NUMBER]) == [b"1"]
        owner.close()
