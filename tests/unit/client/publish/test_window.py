"""The publisher's state machine: by example, and against a model of the broker that refuses, drops and restarts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebay.client.errors import DeliveryTimeout, InvalidPage, PageCorrupt, ProtocolViolation, SinkFull
from forebay.client.publish.window import DAMAGED_MAX, FailedPage, Window, WindowPage

POISON = InvalidPage("poison")
NEVER = 1e9


def page(name: str, partition: int = 0, deadline: float = NEVER) -> WindowPage[str]:
    return WindowPage(partition, name, deadline)


def opened(*names: str, pages_max: int = 8) -> Window[str]:
    window: Window[str] = Window(pages_max)
    window.opened_with_new_epoch()
    for name in names:
        window.add(page(name))
    return window


def send_all(window: Window[str], now: float = 0.0) -> list[tuple[str, int]]:
    sent = []
    while (found := window.next_to_send(now)) is not None:
        assert found.sequence is not None
        sent.append((found.content, found.sequence))
    return sent


def test_pages_are_numbered_in_order_when_they_are_sent() -> None:
    window = opened("a", "b")

    assert send_all(window) == [("a", 0), ("b", 1)]


def test_nothing_is_sent_before_the_stream_is_open() -> None:
    window: Window[str] = Window(8)
    window.add(page("a"))

    assert window.next_to_send(0) is None


def test_partitions_take_turns() -> None:
    window = opened()
    for name in ("a0", "a1", "b0", "b1"):
        window.add(page(name, partition=int(name[0] == "b")))

    assert [name for name, _ in send_all(window)] == ["a0", "b0", "a1", "b1"]


def test_the_window_bounds_what_is_unanswered() -> None:
    window = opened("a", "b", "c", pages_max=2)

    assert send_all(window) == [("a", 0), ("b", 1)]
    window.stored(0, 0)
    assert send_all(window) == [("c", 2)]


def test_after_a_refusal_everything_is_sent_again_from_there_and_not_before_the_broker_said() -> None:
    window = opened("a", "b", "c")
    send_all(window)

    window.rejected_temporarily(0, 0, until=5.0)
    window.rejected_as_gap(0, 1)
    window.rejected_as_gap(0, 2)

    assert send_all(window, now=4.9) == []
    assert window.next_retry_at(4.9) == 5.0
    assert send_all(window, now=5.0) == [("a", 0), ("b", 1), ("c", 2)]
    assert not window.must_renew


def test_a_refused_partition_does_not_hold_up_the_others() -> None:
    window = opened("a")
    send_all(window)
    window.rejected_temporarily(0, 0, until=5.0)

    window.add(page("b", partition=1))

    assert send_all(window) == [("b", 0)]


def test_gaps_of_an_earlier_round_that_come_late_change_nothing() -> None:
    window = opened("a", "b", "c")
    send_all(window)
    window.rejected_temporarily(0, 0, until=0.0)

    again = send_all(window)  # before the answers to the first b and c have come
    window.rejected_as_gap(0, 1)
    window.rejected_as_gap(0, 2)

    assert again == [("a", 0), ("b", 1), ("c", 2)]
    assert [window.stored(0, number) is not None for number in range(3)] == [True] * 3
    assert not window.must_renew


def test_after_a_broken_stream_it_begins_at_the_lowest_unanswered_number() -> None:
    window = opened("a", "b", "c")
    send_all(window)
    window.stored(0, 0)

    window.disconnected()
    window.reopened({0: 2})

    assert send_all(window) == [("b", 1), ("c", 2)]


def test_a_page_refused_for_good_fails_and_the_rest_continues_in_a_new_epoch_under_new_numbers() -> None:
    window = opened("a", "b", "c")
    send_all(window)
    window.stored(0, 0)

    failed = window.rejected_permanently(0, 1, POISON)
    window.rejected_as_gap(0, 2)

    assert failed is not None
    assert failed.page.content == "b"
    assert window.may_renew()
    window.opened_with_new_epoch()
    assert send_all(window) == [("c", 3)]


def test_no_new_epoch_is_taken_while_a_page_may_be_stored_under_the_old_one() -> None:
    window = opened("a")
    window.add(page("b", partition=1))
    send_all(window)

    window.rejected_permanently(0, 0, POISON)

    assert window.must_renew
    assert not window.may_renew()
    window.stored(1, 0)
    assert window.may_renew()


def test_stored_pages_are_sent_once_more_for_their_receipts_before_a_new_epoch() -> None:
    window = opened("a", "b")
    window.add(page("x", partition=1))
    send_all(window)
    window.stored(0, 0)
    window.rejected_permanently(1, 0, POISON)
    window.add(page("y", partition=1))
    window.disconnected()

    window.reopened({0: 2})

    assert not window.may_renew()
    assert send_all(window) == [("b", 1)]
    window.stored(0, 1)
    assert window.may_renew()
    window.opened_with_new_epoch()
    assert send_all(window) == [("y", 1)]


def test_a_broker_that_forgot_what_it_confirmed_gets_a_new_epoch() -> None:
    window = opened("a", "b")
    send_all(window)
    window.stored(0, 0)
    window.disconnected()

    window.reopened({})

    assert window.may_renew()
    window.opened_with_new_epoch()
    assert send_all(window) == [("b", 2)]


def test_a_gap_at_the_lowest_unanswered_number_of_a_new_stream_means_a_new_epoch() -> None:
    window = opened("a")
    send_all(window)
    window.disconnected()
    window.reopened({0: 1})
    send_all(window)

    window.rejected_as_gap(0, 0)

    assert window.may_renew()


def test_a_page_that_was_never_sent_is_given_up_without_a_hole() -> None:
    window: Window[str] = Window(8)
    window.add(page("a", deadline=1.0))
    window.add(page("b", deadline=9.0))

    failed = window.expire(1.0)

    assert [(one.page.content, type(one.error)) for one in failed] == [("a", DeliveryTimeout)]
    window.opened_with_new_epoch()
    assert send_all(window) == [("b", 0)]
    assert not window.must_renew


def test_a_page_that_is_given_up_after_a_refusal_says_which_one() -> None:
    window = opened()
    window.add(page("a", deadline=5.0))
    window.add(page("b", deadline=5.0))
    send_all(window)
    window.rejected_temporarily(0, 0, until=9.0, rejection=SinkFull("no room for more", facts={"limit": "10"}))
    window.rejected_as_gap(0, 1)

    errors = [failed.error for failed in window.expire(5.0)]

    assert ["no room for more" in str(error) for error in errors] == [True, True]
    assert errors[0].facts == {"limit": "10", "refusal": "SINK_FULL"}
    assert isinstance(errors[0], DeliveryTimeout)
    assert errors[0].refusal == "SINK_FULL"


def test_a_page_given_up_while_it_was_stored_leaves_its_number_to_it() -> None:
    window: Window[str] = Window(8)
    window.opened_with_new_epoch()
    window.add(page("five", deadline=1.0))
    send_all(window)
    window.disconnected()  # it was stored, the receipt was lost

    failed = window.expire(2.0)
    window.add(page("other"))
    window.reopened({0: 1})

    assert [one.page.content for one in failed] == ["five"]
    assert send_all(window) == [("other", 1)]
    assert not window.must_renew


def test_a_page_given_up_that_was_not_stored_is_a_hole() -> None:
    window: Window[str] = Window(8)
    window.opened_with_new_epoch()
    window.add(page("five", deadline=1.0))
    send_all(window)
    window.disconnected()
    window.expire(2.0)
    window.add(page("other"))

    window.reopened({})

    assert window.may_renew()
    window.opened_with_new_epoch()
    assert send_all(window) == [("other", 1)]


def test_a_page_given_up_between_two_tries_is_a_hole() -> None:
    window = opened()
    window.add(page("a", deadline=1.0))
    window.add(page("b"))
    send_all(window)
    window.rejected_temporarily(0, 0, until=9.0)
    window.rejected_as_gap(0, 1)

    assert [one.page.content for one in window.expire(2.0)] == ["a"]

    assert window.may_renew()
    window.opened_with_new_epoch()
    assert send_all(window, now=9.0) == [("b", 2)]


def test_the_receipt_of_a_page_that_was_given_up_belongs_to_no_caller() -> None:
    window = opened()
    window.add(page("a", deadline=1.0))
    send_all(window)
    window.expire(2.0)

    assert window.stored(0, 0) is None
    assert not window.must_renew


def test_an_answer_that_is_not_due_is_a_violation_of_the_contract() -> None:
    window = opened("a", "b")
    send_all(window)

    with pytest.raises(ProtocolViolation):
        window.stored(0, 1)


# --- against a model ---------------------------------------------------------------------------------------------


@dataclass
class Lane:
    """Sequences of an epoch that the broker has stored in a partition."""

    expected: int | None = None
    accepted: dict[int, str] = field(default_factory=dict)


@dataclass
class Broker:
    """The rules of the contract, and what is stored."""

    epoch: int = 0
    lanes: dict[tuple[int, int], Lane] = field(default_factory=dict)
    stored: dict[int, list[str]] = field(default_factory=dict)

    def open(self, epoch: int | None) -> tuple[int, dict[int, int]]:
        if epoch is None:
            self.epoch += 1
        assert epoch in {None, self.epoch}
        mine = ((partition, lane) for (of, partition), lane in self.lanes.items() if of == self.epoch)
        return self.epoch, {partition: lane.expected for partition, lane in mine if lane.expected is not None}

    def take(self, epoch: int, partition: int, sequence: int, name: str, *, full: bool) -> str:
        lane = self.lanes.setdefault((epoch, partition), Lane())
        if sequence in lane.accepted:
            assert lane.accepted[sequence] == name, "a number was used for two pages"
            return "stored"
        if lane.expected is None:
            lane.expected = sequence
        if sequence != lane.expected:
            return "gap"
        if full:
            return "full"
        if name.startswith("poison"):
            return "poison"
        lane.accepted[sequence] = name
        lane.expected += 1
        self.stored.setdefault(partition, []).append(name)
        return "stored"


class Run:
    """A writer, a network that loses what is on the way, and the broker."""

    def __init__(self, pages_max: int) -> None:
        self.window: Window[str] = Window(pages_max)
        self.broker = Broker()
        self.epoch: int | None = None
        self.is_open = False
        self.now = 0.0
        self.up: deque[tuple[int, int, int, str]] = deque()
        self.down: deque[tuple[int, int, str]] = deque()
        self.added: dict[int, list[str]] = {}
        self.deadlines: dict[int, float] = {}
        self.settled: list[str] = []
        self.failed: dict[str, str] = {}

    def add(self, partition: int, *, poison: bool, patience: float) -> None:
        names = self.added.setdefault(partition, [])
        name = f"{'poison' if poison else 'page'}-{partition}-{len(names)}"
        names.append(name)
        deadline = max(self.deadlines.get(partition, 0.0), self.now + patience)
        self.deadlines[partition] = deadline
        self.window.add(page(name, partition, deadline))

    def open(self) -> None:
        if self.is_open:
            return
        resume = self.epoch is not None and not self.window.may_renew()
        self.epoch, following = self.broker.open(self.epoch if resume else None)
        self.is_open = True
        if resume:
            self.window.reopened(following)
        else:
            self.window.opened_with_new_epoch()

    def send(self) -> None:
        if self.window.may_renew():
            self.drop(processed=0)  # the sender half-closes; nothing is on the way
        found = self.window.next_to_send(self.now)
        if found is not None:
            assert self.is_open
            assert self.epoch is not None
            assert found.sequence is not None
            assert not found.expired
            self.up.append((self.epoch, found.partition, found.sequence, found.content))

    def process(self, *, full: bool) -> None:
        if self.up:
            epoch, partition, sequence, name = self.up.popleft()
            self.down.append((partition, sequence, self.broker.take(epoch, partition, sequence, name, full=full)))

    def read(self) -> None:
        if not self.down:
            return
        partition, sequence, answer = self.down.popleft()
        if answer == "stored":
            page = self.window.stored(partition, sequence)
            if page is not None:
                self.settled.append(page.content)
        elif answer == "full":
            self.window.rejected_temporarily(partition, sequence, self.now + 1)
        elif answer == "gap":
            self.window.rejected_as_gap(partition, sequence)
        else:
            self._note([self.window.rejected_permanently(partition, sequence, POISON)])

    def drop(self, *, processed: int) -> None:
        for _ in range(processed):
            self.process(full=False)
        self.up.clear()
        self.down.clear()
        if self.is_open:
            self.is_open = False
            self.window.disconnected()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._note(self.window.expire(self.now))

    def _note(self, failed: list[FailedPage[str]] | list[FailedPage[str] | None]) -> None:
        for one in failed:
            if one is not None:
                assert one.page.content not in self.failed
                self.failed[one.page.content] = type(one.error).__name__

    def finish(self) -> None:
        for _ in range(2000):
            if not any(True for _ in self.window):
                return
            self.open()
            self.send()
            self.process(full=False)
            self.read()
            self.now += 0.01
        raise AssertionError("the writer is stuck")


ops = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 1), st.booleans(), st.sampled_from([2.0, 8.0, NEVER])),
    st.just(("open",)),
    st.just(("send",)),
    st.just(("send",)),
    st.tuples(st.just("process"), st.sampled_from([False, False, False, True])),
    st.just(("read",)),
    st.just(("read",)),
    st.tuples(st.just("drop"), st.integers(0, 4)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 3.0])),
)
add = ("add", 0, False, NEVER)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.lists(ops, max_size=120), st.integers(1, 4))
@example([("open",), add, add, ("send",), ("send",), ("process", True), ("process", False), ("read",)], 4)
@example(
    [("add", 1, False, 2.0), ("open",), ("send",), ("drop", 1), ("open",), ("wait", 3.0), ("add", 1, False, 2.0)], 1
)
def test_nothing_is_lost_nothing_doubled_and_the_order_is_kept(
    history: list[tuple[object, ...]], pages_max: int
) -> None:
    run = Run(pages_max)
    for op, *arguments in history:
        match op, arguments:
            case "add", [int(partition), bool(poison), float(patience)]:
                run.add(partition, poison=poison and len(run.added.get(partition, ())) % 5 == 0, patience=patience)
            case "open", _:
                run.open()
            case "send", _:
                run.send()
            case "process", [bool(full)]:
                run.process(full=full)
            case "read", _:
                run.read()
            case "drop", [int(processed)]:
                run.drop(processed=processed)
            case "wait", [float(seconds)]:
                run.wait(seconds)
    run.finish()

    for partition, names in run.added.items():
        stored = run.broker.stored.get(partition, [])
        assert len(set(stored)) == len(stored), "doubled"
        assert stored == [name for name in names if name in set(stored)], "out of order"
        for name in names:
            if name in run.failed:
                assert name not in run.settled
                assert run.failed[name] == "DeliveryTimeout" or name not in stored
            else:
                assert run.settled.count(name) == 1
                assert name in stored


def test_a_page_that_was_damaged_on_its_way_is_sent_again_at_once_and_fails_in_the_end() -> None:
    window = opened("a", "b")
    damaged = PageCorrupt("another checksum")
    for _ in range(DAMAGED_MAX - 1):
        assert send_all(window) == [("a", 0), ("b", 1)]
        assert window.rejected_as_damaged(0, 0, 0.0, damaged) is None
        window.rejected_as_gap(0, 1)

    assert send_all(window) == [("a", 0), ("b", 1)]
    failed = window.rejected_as_damaged(0, 0, 0.0, damaged)
    assert failed is not None
    assert (failed.page.content, failed.error) == ("a", damaged)


def test_damage_of_one_page_does_not_count_against_another() -> None:
    window = opened("a", "b")
    damaged = PageCorrupt("another checksum")
    send_all(window)
    window.rejected_as_damaged(0, 0, 0.0, damaged)
    window.rejected_as_gap(0, 1)
    send_all(window)
    window.stored(0, 0)

    for _ in range(DAMAGED_MAX - 1):
        assert window.rejected_as_damaged(0, 1, 0.0, damaged) is None
        send_all(window)
