"""Held bytes of a connection: what it sent, less what its requests explain."""

from __future__ import annotations

from forebay.broker.core.resources.connections import Progress
from forebay.broker.core.resources.unread import STALLED_S, Intake, Traffic, Unread

MIB = 1 << 20
NOW = 100.0


def test_bytes_of_an_incomplete_request_are_held_until_it_is_complete() -> None:
    unread, intake = Unread(), Intake()

    half = unread.check(Traffic(received=16 * MIB), intake, NOW, is_open=True)
    intake.bytes, intake.messages = 20 * MIB, 1
    whole = unread.check(Traffic(received=20 * MIB + 1_000), intake, NOW + 1, is_open=True)

    assert (half, whole) == (16 * MIB, 0)


def test_requests_that_are_complete_do_not_pay_for_one_that_is_not() -> None:
    unread, intake = Unread(), Intake()
    unread.check(Traffic(received=31 * MIB), intake, NOW, is_open=True)
    held = -1

    for second in range(1, 1_001):
        intake.bytes, intake.messages = second * MIB, second
        held = unread.check(Traffic(received=(31 + second) * MIB), intake, NOW + second, is_open=True)

    assert held > 26 * MIB


def test_frames_and_records_of_tls_around_small_messages_are_not_held_however_many_there_are() -> None:
    unread, intake = Unread(), Intake()
    held = -1

    for second in range(1, 1_001):
        intake.messages, intake.bytes = second * 10_000, second * 10_000 * 100
        wire = intake.messages * (100 + 5 + 9 + 29)
        held = unread.check(Traffic(received=wire), intake, NOW + second, is_open=True)

    assert held == 0


def test_a_connection_that_was_silent_for_a_day_has_no_more_room_than_another() -> None:
    silent, other = Unread(), Unread()
    for unread, before in ((silent, 86_400.0), (other, 2.0)):
        unread.check(Traffic(received=1), Intake(), NOW - before, is_open=False)

    held = [unread.check(Traffic(received=MIB), Intake(), NOW, is_open=True) for unread in (silent, other)]

    assert held[0] == held[1] > MIB - 1_000


def test_updates_of_flow_control_and_headers_of_calls_are_not_held() -> None:
    unread, intake = Unread(), Intake()
    held = -1

    for second in range(1, 1_001):
        intake.calls = second * 100
        sent = second * 100 * MIB
        updates = sent // (16 << 10) * (13 + 13 + 29)
        held = unread.check(Traffic(intake.calls * 300 + updates, sent), intake, NOW + second, is_open=True)

    assert held == 0


def test_nothing_is_held_when_the_last_call_has_ended_and_what_comes_then_is() -> None:
    unread, intake = Unread(), Intake()
    unread.check(Traffic(received=16 * MIB), intake, NOW, is_open=True)
    intake.calls = 1

    ended = unread.check(Traffic(received=17 * MIB), intake, NOW + 1, is_open=False)
    later = unread.check(Traffic(received=19 * MIB), intake, NOW + 2, is_open=False)

    assert (ended, later) == (0, 2 * MIB - 64)


def test_held_bytes_that_do_not_become_more_are_stalled_and_others_arrive_until_a_request_is_complete() -> None:
    unread, intake = Unread(), Intake()
    seen = []
    for second in range(int(STALLED_S) + 1):
        unread.check(Traffic(received=(1 + second) * MIB), intake, NOW + second, is_open=True)
        seen.append(unread.progress(NOW + second))
    intake.messages = 1
    unread.check(Traffic(received=10 * MIB), intake, NOW + 10, is_open=True)

    assert (seen[0], seen[-1]) == (Progress.READ, Progress.ARRIVING)
    assert unread.progress(NOW + 10) is Progress.READ
    assert unread.progress(NOW + 10 + STALLED_S) is Progress.STALLED
