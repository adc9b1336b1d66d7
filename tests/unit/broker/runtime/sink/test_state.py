"""State of a sink over all its subscriptions: what is settled, in flight and pending."""

from __future__ import annotations

import pytest

from forebay.broker.core.delivery.lane import Answer
from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from tests.support.brokers.one_sink import filled_sink
from tests.support.brokers.running import Hand

pytestmark = pytest.mark.anyio


async def test_a_page_is_settled_once_every_subscription_has_settled_it() -> None:
    async with filled_sink(records=4) as buffer:
        await buffer.subscribing.create("second", EARLIEST, or_earliest=False)
        state, log, first = buffer.state, buffer.logs[0], buffer.logs[0].recent[0]
        hands = [Hand(buffer.subscription(name)) for name in ("default", "second")]
        for hand, acked in zip(hands, (3, 1), strict=True):
            assert not state.is_settled(0, first)
            await hand.take_all()
            lane = hand.subscription.lanes[0]
            await hand.subscription.ack(0, Answer(lane.owner_epoch, lane.revision), [Range(0, acked)])

        assert state.is_settled(0, first)
        assert (state.settled(log), state.pending) == (1, 3)
        assert state.in_flight(0) == {1, 2, 3}


async def test_a_deleted_sink_is_not_found() -> None:
    async with filled_sink(records=1) as buffer:
        buffer.state.check_alive()
        buffer.state.end()

        with pytest.raises(SinkNotFound):
            buffer.state.check_alive()

        assert buffer.state.gone.is_set()
        buffer.state.deleted = False
