"""Progress of a lane: one owner of its cursor, for the account, the deliveries and the store."""

from __future__ import annotations

from forebay.broker.core.delivery.progress import Progress
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range


def test_records_that_are_moved_count_as_settled_for_deliveries_only() -> None:
    progress = Progress(Cursor(sent=3))

    assert progress.settle([Range(0, 2)], None) == 2

    assert (progress.cursor.watermark, progress.view.watermark, progress.stored.watermark) == (0, 2, 0)


def test_moved_records_are_stored_as_settled_once_their_batch_is_cut() -> None:
    progress = Progress(Cursor(sent=3))
    progress.settle([Range(0, 2)], None)

    progress.transfers.queue([Range(0, 2)])
    progress.transfers.seal([Range(0, 2)], Settlement.DEAD_LETTERED)

    assert (progress.cursor.watermark, progress.stored.watermark) == (0, 2)
    found = progress.transfers.confirm([Range(0, 2)], Settlement.DEAD_LETTERED)
    assert progress.settle_confirmed(found, Settlement.DEAD_LETTERED) == 2
    assert (progress.cursor.watermark, progress.cursor.dead_lettered) == (2, 2)


def test_records_sent_before_are_redeliveries() -> None:
    progress = Progress(Cursor())

    progress.sent([Range(0, 4)])
    progress.sent([Range(2, 6)])

    assert (progress.cursor.sent, progress.redelivered) == (6, 2)


def test_confirmed_notices_never_go_back() -> None:
    progress = Progress(Cursor())

    progress.note_notified(5)
    progress.note_notified(3)

    assert progress.cursor.notified == 5


def test_a_new_account_begins_at_its_offset_and_keeps_what_was_sent() -> None:
    progress = Progress(Cursor(sent=9))
    progress.fail(1)

    progress.reopen(4, 8)

    assert progress.cursor == Cursor(start=4, watermark=4, notified=4, sent=8)
    assert progress.begin == 4
