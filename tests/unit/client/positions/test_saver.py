"""Saves of positions: ownership, retries, lost answers and fencing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from forebay.client import ClientFault
from forebay.client.errors import Closed, ForebayError, PositionConflict, PositionFenced, PositionStoreUnavailable
from forebay.client.positions.position import FORMER_CONSUMERS_MAX, PositionKey, SavedPosition
from forebay.client.positions.saver import FAILURE_LOG_S, PositionSaver
from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.stores.memory import MemoryPositions
from forebay.client.positions.telemetry import SaveTelemetry
from tests.support.calls.eventually import until
from tests.support.positions.flaky import FlakyPositions
from tests.support.telemetry.observed import Observed, Point

KEY = PositionKey("default", "billing", "orders", 0)
AT_ONCE = SaveSchedule(frequency_s=0)
NEVER = SaveSchedule(frequency_s=86_400)
WAIT_S = 20.0
MADE: list[PositionSaver] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End the savers of a test: their threads would be there in the next."""
    yield
    while MADE:
        with suppress(ForebayError):
            MADE.pop().close(0.0)


def saver(
    store: FlakyPositions | MemoryPositions,
    owner: str = "a",
    schedule: SaveSchedule = NEVER,
    wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    clock: Callable[[], float] = time.monotonic,
) -> PositionSaver:
    MADE.append(PositionSaver(store, owner=owner, schedule=schedule, wall=wall, clock=clock, uniform=lambda: 0.0))
    return MADE[-1]


def take_over(one: PositionSaver, *, start: int = 0, incarnation: str = "i") -> None:
    saved, version = one.read(KEY)
    one.take_over(KEY, saved, version, incarnation=incarnation, start=start if saved is None else saved.offset)


def stored(store: FlakyPositions | MemoryPositions) -> SavedPosition:
    found = store.read(str(KEY))
    assert found is not None
    return SavedPosition.decode(str(KEY), found.document)


def test_taking_a_partition_over_raises_its_epoch_and_keeps_its_offset() -> None:
    store = MemoryPositions()
    first = saver(store)
    take_over(first, start=7)
    first.close(WAIT_S)

    take_over(saver(store, "b"))

    assert (stored(store).offset, stored(store).epoch, stored(store).owner) == (7, 2, "b")


def test_a_position_that_moved_is_saved_at_a_clean_stop() -> None:
    store = MemoryPositions()
    one = saver(store)
    take_over(one)

    one.moved(0, 41)
    one.close(WAIT_S)

    assert stored(store).offset == 41
    assert one.saved() == {0: 41}


def test_a_position_is_saved_on_schedule_without_a_request() -> None:
    store = MemoryPositions()
    one = saver(store, schedule=AT_ONCE)
    take_over(one)

    one.moved(0, 5)

    with one._changed:
        assert one._changed.wait_for(lambda: one._held[0].due.saved == 5, WAIT_S)
    assert stored(store).offset == 5


def test_of_positions_ten_seven_and_eleven_seven_is_ignored() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)

    for position in (10, 7, 11):
        one.moved(0, position)
        one.save()

    offsets = [SavedPosition.decode("", document).offset for document in store.written]
    assert offsets == [0, 10, 11]


def test_a_failed_save_is_counted_retried_and_shown() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before", "before"])

    one.moved(0, 3)
    one.save(timeout_s=WAIT_S)

    assert stored(store).offset == 3
    found = one.statistics
    assert (found.saved, found.failed, found.failed_in_a_row, found.last_error) == (1, 2, 0, "")


def test_a_save_whose_answer_was_lost_is_no_conflict_with_itself() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.append("after")

    one.moved(0, 3)
    one.save(timeout_s=WAIT_S)
    one.moved(0, 9)
    one.save(timeout_s=WAIT_S)

    assert stored(store).offset == 9
    assert one.statistics.failed == 1


def test_a_save_after_one_whose_answer_was_lost_replaces_it() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.append("after")
    one.moved(0, 3)
    with pytest.raises(PositionStoreUnavailable):
        one.save(0, timeout_s=WAIT_S)

    one.moved(0, 9)
    one.save(timeout_s=WAIT_S)

    assert stored(store).offset == 9


def test_more_failures_in_a_row_than_allowed_stop_the_consumer() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before"] * 5)

    one.moved(0, 3)
    with pytest.raises(PositionStoreUnavailable, match="2 saves in a row failed, save_failures_max is 1"):
        one.save(1, timeout_s=WAIT_S)


def test_a_partition_that_always_fails_stops_the_consumer_though_the_others_are_saved() -> None:
    other = replace(KEY, partition=1)
    store = MemoryPositions()

    def settle(partition: int, position: int) -> None:
        if partition == 1:
            raise PositionStoreUnavailable("in use")

    seen = Observed()
    one = PositionSaver(
        store,
        owner="a",
        schedule=AT_ONCE,
        on_saved=settle,
        telemetry=SaveTelemetry("orders", "billing", meters=seen.meters),
        uniform=lambda: 0.0,
    )
    MADE.append(one)
    take_over(one)
    one.take_over(other, None, None, incarnation="i", start=0)

    one.moved(1, 5)
    for position in range(1, 20):
        one.moved(0, position)
        until(lambda wanted=position: one.saved()[0] == wanted)  # type: ignore[misc]  # the default binds it
    until(lambda: one.statistics.failed_in_a_row > 3)

    assert one.statistics.last_error == "PositionStoreUnavailable: in use"
    with pytest.raises(PositionStoreUnavailable, match=r"saves in a row failed, save_failures_max is 3: .*in use"):
        one.check(3)


def test_a_consumer_that_was_replaced_cannot_write_and_is_notified() -> None:
    store = MemoryPositions()
    former, later = saver(store), saver(store, "b")
    take_over(former)
    take_over(later)

    former.moved(0, 50)
    with pytest.raises(PositionFenced, match="took over partition 0"):
        former.save(timeout_s=WAIT_S)
    with pytest.raises(PositionFenced):
        former.check(None)
    with pytest.raises(PositionFenced):
        former.moved(0, 51)

    assert (stored(store).offset, stored(store).owner) == (0, "b")
    later.moved(0, 8)
    later.save(timeout_s=WAIT_S)
    assert stored(store).offset == 8


def test_a_consumer_is_fenced_by_one_that_took_over_while_its_answer_was_lost() -> None:
    shared = MemoryPositions()
    store = FlakyPositions(shared)
    former, later = saver(store), saver(shared, "b")
    take_over(former)
    store.failures.append("after")
    store.failures.extend(["before"] * 1000)
    former.moved(0, 5)
    with pytest.raises(PositionStoreUnavailable):
        former.save(0, timeout_s=WAIT_S)

    take_over(later)
    store.failures.clear()

    with pytest.raises(PositionFenced):
        former.save(timeout_s=WAIT_S)
    assert (stored(store).offset, stored(store).owner) == (5, "b")


def went_back(store: MemoryPositions, document: bytes | None) -> None:
    """Give the store the content that it had before, as the restore of a backup does."""
    store.delete(str(KEY))
    if document is not None:
        store.compare_and_write(str(KEY), document, None)


def test_an_owner_replaces_a_position_of_an_earlier_epoch_in_a_store_that_was_restored() -> None:
    store = MemoryPositions()
    former, later = saver(store), saver(store, "b")
    take_over(former)
    before = store.read(str(KEY))
    take_over(later)
    went_back(store, before.document if before is not None else None)

    later.moved(0, 9)
    later.save(timeout_s=WAIT_S)

    assert (stored(store).offset, stored(store).epoch, stored(store).owner) == (9, 2, "b")
    former.moved(0, 50)
    with pytest.raises(PositionFenced):
        former.save(timeout_s=WAIT_S)


def test_an_owner_is_fenced_by_one_that_began_after_a_deletion_though_its_epoch_is_lower() -> None:
    store = MemoryPositions()
    take_over(saver(store))
    former, later = saver(store, "b"), saver(store, "c", wall=lambda: datetime.now(UTC) + timedelta(seconds=1))
    take_over(former)
    went_back(store, None)
    take_over(later)

    former.moved(0, 50)
    with pytest.raises(PositionFenced, match="took over partition 0"):
        former.save(timeout_s=WAIT_S)

    assert (stored(store).offset, stored(store).epoch, stored(store).owner) == (0, 1, "c")
    later.moved(0, 8)
    later.save(timeout_s=WAIT_S)
    assert stored(store).offset == 8


def test_an_owner_whose_clock_is_ahead_is_fenced_by_one_that_began_after_a_deletion() -> None:
    def ahead(seconds: float) -> Callable[[], datetime]:
        return lambda: datetime.now(UTC) + timedelta(seconds=seconds)

    store = MemoryPositions()
    take_over(saver(store))
    former, later = saver(store, "b", wall=ahead(300)), saver(store, "c", wall=ahead(1))
    take_over(former)
    went_back(store, None)
    take_over(later)

    former.moved(0, 50)
    with pytest.raises(PositionFenced, match="took over partition 0"):
        former.save(timeout_s=WAIT_S)

    assert (stored(store).offset, stored(store).owner) == (0, "c")


def test_an_owner_whose_predecessor_had_a_clock_that_is_ahead_is_fenced_by_one_that_began_after_a_deletion() -> None:
    store = MemoryPositions()
    take_over(saver(store, wall=lambda: datetime.now(UTC) + timedelta(seconds=300)))
    former, later = saver(store, "b"), saver(store, "c")
    take_over(former)
    went_back(store, None)
    take_over(later)

    former.moved(0, 50)
    with pytest.raises(PositionFenced, match="took over partition 0"):
        former.save(timeout_s=WAIT_S)

    assert (stored(store).offset, stored(store).owner) == (0, "c")


def test_an_owner_whose_predecessor_had_a_clock_that_is_behind_replaces_its_position_in_a_restored_store() -> None:
    store = MemoryPositions()
    first = saver(store)
    take_over(first)
    backup = replace(stored(store), saved_at=datetime.now(UTC) + timedelta(seconds=300)).encode()
    later = saver(store, "b")
    take_over(later)
    went_back(store, backup)

    later.moved(0, 9)
    later.save(timeout_s=WAIT_S)

    assert (stored(store).offset, stored(store).owner, stored(store).former) == (9, "b", ("a",))


def test_of_an_epoch_whose_owner_is_too_long_ago_the_time_decides() -> None:
    store = MemoryPositions()
    take_over(saver(store, "first"))
    backup = stored(store)
    owners = [saver(store, f"owner-{number}") for number in range(FORMER_CONSUMERS_MAX + 1)]
    for one in owners:
        take_over(one)
    last = owners[-1]
    assert len(stored(store).former) == FORMER_CONSUMERS_MAX
    went_back(store, backup.encode())

    last.moved(0, 9)
    last.save(timeout_s=WAIT_S)
    assert stored(store).offset == 9

    went_back(store, replace(backup, saved_at=datetime.now(UTC) + timedelta(seconds=300)).encode())
    last.moved(0, 10)
    with pytest.raises(PositionFenced):
        last.save(timeout_s=WAIT_S)


def test_an_owner_is_notified_that_its_position_is_gone_and_does_not_write_it_again() -> None:
    store = MemoryPositions()
    one = saver(store)
    take_over(one)
    went_back(store, None)

    one.moved(0, 9)
    with pytest.raises(PositionFenced, match="deleted or lost"):
        one.save(timeout_s=WAIT_S)

    assert store.read(str(KEY)) is None


def test_a_position_that_changed_since_it_was_read_is_not_taken_over() -> None:
    store = MemoryPositions()
    one, other = saver(store), saver(store, "b")
    saved, version = one.read(KEY)
    take_over(other)

    with pytest.raises(PositionConflict):
        one.take_over(KEY, saved, version, incarnation="i", start=0)


def test_a_save_that_takes_too_long_says_what_failed_last() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before"] * 1000)

    one.moved(0, 3)
    with pytest.raises(PositionStoreUnavailable, match=r"not saved within 0.3 s: .*: the store is away"):
        one.save(timeout_s=0.3)


def test_a_save_that_takes_too_long_is_completed_in_the_background() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before"] * 1000)

    one.moved(0, 3)
    assert not one.try_save(timeout_s=0.1)
    store.failures.clear()

    until(lambda: one.saved() == {0: 3})
    assert one.try_save(timeout_s=0)
    assert stored(store).offset == 3


def test_a_thread_that_waits_for_a_save_is_released_as_soon_as_another_one_closes() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before"] * 1000)
    one.moved(0, 3)

    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(one.save)
        until(lambda: one.statistics.failed > 0)
        closing = threads.submit(one.close, WAIT_S)

        with pytest.raises(Closed, match="before its position was saved"):
            waiting.result(WAIT_S)
        assert not closing.done()
        store.failures.clear()
        closing.result(WAIT_S)

    assert stored(store).offset == 3


class SilentStore(MemoryPositions):
    """Store that answers a takeover at once, and saves when ``answering`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.answering = threading.Event()

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        if expected is not None:
            self.asked.set()
            self.answering.wait(WAIT_S)
        return super().compare_and_write(key, document, expected)


def test_a_save_that_is_requested_while_another_is_written_follows_it_at_once() -> None:
    store = SilentStore()
    one = saver(store)
    take_over(one)
    one.moved(0, 10)
    assert not one.try_save(timeout_s=0)
    assert store.asked.wait(WAIT_S)

    one.moved(0, 15)
    assert not one.try_save(timeout_s=0)
    store.answering.set()

    until(lambda: one.saved() == {0: 15})
    assert (stored(store).offset, one.statistics.saved) == (15, 2)


def failed_for_long(store: FlakyPositions) -> PositionSaver:
    """Return a saver of position 3 whose next attempt is due in more than 10 s: the store was away."""
    skipped_s = 0.0
    one = saver(store, clock=lambda: time.monotonic() + skipped_s)
    take_over(one)
    one.moved(0, 3)
    store.failures.extend(["before"] * 10)
    while one.statistics.failed < 10:  # it begins again by itself, too
        before = one.statistics.failed
        skipped_s += 30.0
        assert not one.try_save(timeout_s=0)
        until(lambda before=before: one.statistics.failed > before)  # type: ignore[misc]  # the default binds it
    return one


def test_the_last_save_does_not_wait_for_the_delay_after_failures_that_are_over() -> None:
    store = FlakyPositions(MemoryPositions())
    one = failed_for_long(store)

    one.close(5.0)

    assert stored(store).offset == 3


def test_a_save_that_a_program_waits_for_begins_again_with_short_delays() -> None:
    store = FlakyPositions(MemoryPositions())
    one = failed_for_long(store)
    store.failures.append("before")

    one.save(timeout_s=5.0)

    assert (stored(store).offset, one.statistics.failed) == (3, 11)


def test_repeated_requests_without_a_wait_leave_the_delay_after_a_failure() -> None:
    store = FlakyPositions(MemoryPositions())
    one = failed_for_long(store)
    store.failures.extend(["before"] * 1000)

    for _ in range(100):
        assert not one.try_save(timeout_s=0.001)

    assert one.statistics.failed == 10


def test_a_close_beside_a_store_without_an_answer_waits_for_its_time_limit_once() -> None:
    store, limit_s = SilentStore(), 2.0
    one = saver(store, schedule=AT_ONCE)
    take_over(one)
    one.moved(0, 3)
    assert store.asked.wait(WAIT_S)

    began = time.monotonic()
    with pytest.raises(PositionStoreUnavailable, match="not saved within 2 s"):
        one.close(limit_s)
    took_s = time.monotonic() - began
    store.answering.set()

    assert took_s < 1.9 * limit_s
    until(lambda: stored(store).offset == 3)


def test_a_close_that_discards_saves_no_position_and_waits_for_no_store() -> None:
    store = FlakyPositions(MemoryPositions())
    one = saver(store)
    take_over(one)
    store.failures.extend(["before"] * 1000)
    one.moved(0, 3)
    assert not one.try_save(timeout_s=0)

    one.close(WAIT_S, discard=True)

    assert (stored(store).offset, one.saved()) == (0, {0: 0})


def test_a_close_that_discards_reports_a_consumer_that_was_replaced() -> None:
    store = MemoryPositions()
    former = saver(store)
    take_over(former)
    take_over(saver(store, "b"))
    former.moved(0, 3)
    with pytest.raises(PositionFenced):
        former.try_save(timeout_s=WAIT_S)

    with pytest.raises(PositionFenced):
        former.close(WAIT_S, discard=True)


def test_failed_saves_are_logged_at_intervals_and_their_end_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FlakyPositions(MemoryPositions())
    now = [0.0]
    one = PositionSaver(store, owner="a", schedule=NEVER, clock=lambda: now[0], uniform=lambda: 0.0)
    MADE.append(one)
    take_over(one)

    def fail(times: int, position: int) -> None:
        """Save a position after failed attempts, each a second after the one before."""
        store.failures.extend(["before"] * times)
        one.moved(0, position)
        before = one.statistics.failed
        for count in range(1, times + 1):
            assert not one.try_save(timeout_s=0)
            until(lambda count=count: one.statistics.failed == before + count)  # type: ignore[misc]
            now[0] += 1.0
        one.save(timeout_s=WAIT_S)

    fail(2, 3)
    fail(2, 5)
    assert logged(caplog) == [
        "position was not saved sink=orders consumer=billing partition=0 failures=1"
        " reason=POSITION_STORE_UNAVAILABLE retry_in_s=0.05: the store is away",
        "positions are saved again sink=orders consumer=billing failures=2",
    ]
    caplog.clear()
    now[0] += FAILURE_LOG_S
    fail(1, 7)
    assert [line.partition(" ")[0] for line in logged(caplog)] == ["position", "positions"]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "forebay.client.positions.saver"]


class BrokenStore(MemoryPositions):
    """Store of another package with a defect."""

    broken = False

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        if self.broken:
            raise ZeroDivisionError
        return super().compare_and_write(key, document, expected)


def test_an_error_that_is_none_of_a_store_ends_the_consumer_with_a_reason() -> None:
    store = BrokenStore()
    one = saver(store)
    take_over(one)
    store.broken = True

    one.moved(0, 3)
    with pytest.raises(ClientFault, match="ZeroDivisionError"):
        one.save(timeout_s=WAIT_S)


def test_saves_and_failures_are_measured_with_the_age_of_the_last_save_and_what_is_not_saved() -> None:
    seen = Observed()
    store = FlakyPositions(MemoryPositions(), [None, "before"])
    now = [0.0]
    one = PositionSaver(
        store,
        owner="a",
        schedule=AT_ONCE,
        telemetry=SaveTelemetry("orders", "billing", meters=seen.meters),
        clock=lambda: now[0],
        uniform=lambda: 0.0,
    )
    MADE.append(one)
    take_over(one)
    now[0] = 40.0

    one.moved(0, 7)
    with one._changed:
        assert one._changed.wait_for(lambda: one.statistics.failed == 1, WAIT_S)
    failed = wait_for_points(seen, "forebay.position.save.failures")
    assert (failed.at["error.type"], failed.value) == ("POSITION_STORE_UNAVAILABLE", 1)
    assert [seen.points(f"forebay.position.{name}")[0].value for name in ("save.age", "lag")] == [40.0, 7]
    now[0] = 80.0
    one.save(timeout_s=WAIT_S)

    saved = wait_for_points(seen, "forebay.position.saves")
    assert (saved.at["sink"], saved.at["group"], saved.value) == ("orders", "billing", 1)
    assert [seen.points(f"forebay.position.{name}")[0].value for name in ("save.age", "lag")] == [0.0, 0]


def wait_for_points(seen: Observed, name: str) -> Point:
    """Return the series of a metric once it was recorded: after the save, on the saver's thread."""
    until(lambda: seen.points(name) != [])
    return seen.points(name)[0]
