"""Random histories of one lane, in either order, whose records set out for another sink, arrive there, or stay.

What must hold after every step: the account balances; what is unsettled below the position is in flight, in the retry
queue or on its way to the other sink, and never two of these; and what is counted in flight is what flies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.core.delivery.answers import Answer, SettleOutcome
from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings

PAGE: Final = 5
PAGES: Final = 4
END: Final = PAGE * PAGES
CHOSEN: Final = SinkSettings(max_attempts=2, relaxed_failures_max=3)
PLACES: Final = st.integers(0, END - 1)
OFTEN: Final = ("send", "again", "ack", "nack", "reject", "reject", "stay", "leave", "time")
NAMES: Final = (*OFTEN, *OFTEN, "until", "exhaust", "queue", "arrive", "drop", "change", "pause")
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        PLACES,
        st.integers(1, 7),
    ),
    min_size=10,
    max_size=60,
)


class History:
    """A lane, and what waits on its way."""

    def __init__(self, ordering: Ordering) -> None:
        self.lane = Lane(Cursor(), replace(CHOSEN, ordering=ordering))
        self.usage = InFlight()
        self.now = 0.0
        self.epoch = 0
        self.set_out: list[Range] = []
        self.queued: list[Range] = []
        self.dropped: set[int] = set()
        self.take()

    def take(self) -> None:
        self.epoch += 1
        self.usage = InFlight()
        self.lane.assign(f"consumer-{self.epoch}", self.epoch, self.usage)

    def part(self, at: int, count: int) -> Range:
        """A range that begins at something in flight, if there is any."""
        flights = list(self.lane.flights)
        if flights:
            flight = flights[at % len(flights)]
            at = flight.first + at // len(flights) % (flight.end - flight.first)
        return Range(at, min(at + count, END))

    def answer(self) -> Answer:
        return Answer(self.epoch, self.lane.revision)

    # -- steps

    def send(self, at: int, count: int) -> None:
        lane = self.lane
        base = lane.sender.position // PAGE * PAGE
        if lane.sender.position < END and lane.sender.pages_allowed(self.now) != 0:
            lane.sender.send(base, base + PAGE, 100, self.now, records_max=count)

    def again(self, at: int, count: int) -> None:
        first = self.lane.retry.next_due(self.now)
        if first is not None:
            base = first // PAGE * PAGE
            self.lane.sender.send_retry(base, base + PAGE, 100, self.now, records_max=count)

    def ack(self, at: int, count: int) -> None:
        self.lane.settle(self.answer(), self.part(at, count), Settlement.ACKED, self.now, END)

    def until(self, at: int, count: int) -> None:
        if at < self.lane.sender.position and count == 1:
            self.lane.settle_until(self.answer(), Range(0, at + 1), self.now, END)

    def nack(self, at: int, count: int) -> None:
        asked = [self.part(at, count)]
        self.lane.nack(self.answer(), asked, self.now, delay_s=None, random=0.5, reason="HTTP 500")

    def reject(self, at: int, count: int) -> None:
        for part, outcome in self.lane.judge(self.answer(), self.part(at, count)):
            if outcome is SettleOutcome.OK:
                self.lane.begin_transfer([part], self.now, END, answered=True)
                self.set_out.append(part)

    def exhaust(self, at: int, count: int) -> None:
        for offset in self.lane.exhausted():
            part = Range(offset, offset + 1)
            self.lane.begin_transfer([part], self.now, END, answered=False)
            self.set_out.append(part)

    def queue(self, at: int, count: int) -> None:
        if self.set_out:
            part = self.set_out.pop(at % len(self.set_out))
            for waiting in self.lane.transfers.waiting_in(part):
                self.lane.transfers.queue([waiting])
                self.queued.append(waiting)

    def arrive(self, at: int, count: int) -> None:
        if self.queued:
            part = self.queued.pop(at % len(self.queued))
            self.lane.transfers.seal([part], Settlement.DEAD_LETTERED)
            self.lane.confirm_transfer([part], Settlement.DEAD_LETTERED)

    def stay(self, at: int, count: int) -> None:
        back, self.set_out = self.set_out[:count], self.set_out[count:]
        self.lane.fail_transfer(back, self.now, rejected=back[::2], delay_s=None, random=0.5, reason="full")

    def drop(self, at: int, count: int) -> None:
        base = at // PAGE * PAGE
        if count == 1 and base not in self.lane.pages_in_flight():
            self.lane.drop([Range(base, base + PAGE)], self.now, END)

    def leave(self, at: int, count: int) -> None:
        self.lane.release(failed=not self.lane.idle)
        self.take()

    def time(self, at: int, count: int) -> None:
        self.now += 6.0 * count
        self.lane.expire(self.now, 0.5)

    def change(self, at: int, count: int) -> None:
        if count == 1:
            other = Ordering.STRICT if self.lane.relaxed else Ordering.RELAXED
            self.lane.change(replace(self.lane.settings, ordering=other))

    def pause(self, at: int, count: int) -> None:
        if count == 1:
            self.lane.pause("somebody asked for it")
            self.lane.resend.resume()

    # -- what must hold

    def check(self) -> None:
        lane = self.lane
        assert lane.cursor.balances(END)
        assert lane.progress.stored.balances(END)
        places: Counter[int] = Counter()
        flights = list(lane.flights)
        for flight in flights:
            flying = [o for r in lane.view.unsettled(Range(flight.first, flight.end)) for o in range(r.first, r.end)]
            assert len(flying) == flight.unsettled > 0
            places.update(flying)
        asides = [Range(one.first, one.end) for one in lane.retry.queue]
        assert all(one.end <= other.first for one, other in pairwise(asides))
        places.update(o for one in asides for r in lane.view.unsettled(one) for o in range(r.first, r.end))
        moving = {o for o in range(END) if lane.transfers.within(Range(o, o + 1))}
        assert not any(lane.cursor.is_settled(o) for o in moving)
        places.update(moving)
        assert all(count == 1 for count in places.values()), "in two places"
        left = {o for r in lane.cursor.unsettled(Range(0, lane.sender.position)) for o in range(r.first, r.end)}
        assert left <= set(places), "forgotten"
        assert self.usage.records == sum(flight.unsettled for flight in flights)
        assert lane.records_in_flight == self.usage.records + len(moving)

    def finish(self) -> None:
        """Let all that is under way arrive, and take and ack the rest: the lane ends empty."""
        for _ in range(200):
            for step in ("exhaust", "queue", "arrive", "time", "send", "again"):
                getattr(self, step)(0, PAGE)
                self.check()
            self.ack(0, END)
            self.check()
            if self.lane.cursor.watermark == END:
                return
        raise AssertionError(f"left: {list(self.lane.cursor.unsettled(Range(0, END)))}")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(Ordering), STEPS)
def test_every_unsettled_record_of_a_lane_with_transfers_is_in_exactly_one_place(
    ordering: Ordering, steps: list[tuple[str, int, int]]
) -> None:
    history = History(ordering)
    for name, at, count in steps:
        getattr(history, name)(at, count)
        history.check()
    history.finish()


def test_a_record_whose_transfer_fails_is_queued_once_if_its_page_was_revoked_meanwhile() -> None:
    history = History(Ordering.RELAXED)
    history.send(0, PAGE)
    history.nack(0, PAGE)
    history.time(0, 1)
    history.again(0, PAGE)
    [flight] = history.lane.flights
    for part, _ in history.lane.judge(history.answer(), Range(2, 3)):
        history.lane.begin_transfer([part], history.now, END, answered=True)
        history.set_out.append(part)

    history.lane.purge()
    history.stay(0, 1)

    assert flight.resent
    history.check()
    history.finish()
