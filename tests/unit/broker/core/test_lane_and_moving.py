from __future__ import annotations

from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Answer, Lane, SettleOutcome
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings


def test_an_ack_up_to_an_offset_is_not_the_one_that_settles_what_is_on_its_way() -> None:
    lane = Lane(Cursor(), SinkSettings())
    lane.assign("consumer", 1, InFlight())
    lane.sender.send(0, 4, 100, 0.0)
    lane.begin_transfer([Range(1, 2)], 0.0, 4, answered=True)

    results = lane.settle_until(Answer(1, lane.revision), Range(0, 4), 0.0, 4)

    assert results == [
        (Range(0, 1), SettleOutcome.OK),
        (Range(1, 2), SettleOutcome.ALREADY_SETTLED),
        (Range(2, 4), SettleOutcome.OK),
    ]
    assert (lane.cursor.acked, lane.cursor.watermark) == (3, 1)
    assert lane.transfers.within(Range(1, 2))
