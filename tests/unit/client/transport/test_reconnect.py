"""Another stream is opened after one that broke, for as long as that can help."""

from __future__ import annotations

import logging

import pytest

from forebay.client import (
    BrokerDraining,
    BrokerUnavailable,
    ClientSettings,
    CredentialsUnusable,
    ProtocolViolation,
    RetryPolicy,
    SinkNotFound,
)
from forebay.client.errors import AccessDenied, InvalidArgument
from forebay.client.transport.reconnect import DAMAGED_MAX, Reconnect
from forebay.errors.reasons import Reason

AWAY = BrokerUnavailable("away")


class World:
    def __init__(self, **settings: object) -> None:
        self.now = 0.0
        given = ClientSettings(**settings)  # type: ignore[arg-type]  # of several kinds
        self.reconnect = Reconnect(given, clock=lambda: self.now, random=lambda: 1.0)

    def after(self, error: Exception, seconds: float = 0.0) -> float | None:
        self.now += seconds
        return self.reconnect.delay_s(error)  # type: ignore[arg-type]  # all of them are ours


def test_a_broker_that_is_unreachable_for_a_year_is_still_tried() -> None:
    world = World()
    tries = 0
    while world.now < 366 * 86_400:
        delay_s = world.after(AWAY, 600.0)  # the clock passes faster than the pauses: fewer rounds, the same rule
        assert delay_s is not None
        assert 0 < delay_s <= 2.0
        tries += 1

    assert tries == world.reconnect.failures > 50_000


def test_a_policy_with_an_end_of_its_own_is_kept() -> None:
    world = World(reconnect=RetryPolicy(tries_max=3, budget_s=None))

    assert [world.after(AWAY) is None for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    "error",
    [
        SinkNotFound("x"),
        AccessDenied("x", reason=Reason.TOKEN_REFUSED),
        AccessDenied("x", reason=Reason.HANDSHAKE_FAILED),
    ],
)
def test_a_final_error_ends_the_reconnection_at_once(error: Exception) -> None:
    world = World()
    world.reconnect.opened()

    assert world.after(error) is None


def test_credentials_that_cannot_be_used_are_final_at_the_start() -> None:
    assert World().after(CredentialsUnusable("no file")) is None


def test_credentials_that_are_being_replaced_get_patience() -> None:
    world = World(handshake_patience_s=60.0)
    world.reconnect.opened()

    assert world.after(CredentialsUnusable("no file")) is not None
    assert world.after(CredentialsUnusable("no file"), 59) is not None
    assert world.after(CredentialsUnusable("no file"), 2) is None


def test_an_opened_stream_resets_the_patience_for_credentials() -> None:
    world = World(handshake_patience_s=60.0)
    world.reconnect.opened()
    world.after(CredentialsUnusable("no file"))
    world.reconnect.opened()

    assert world.after(CredentialsUnusable("no file"), 61) is not None
    assert world.after(AWAY, 61) is not None
    assert world.after(CredentialsUnusable("no file")) is not None


def test_a_wish_of_the_broker_to_wait_is_honoured() -> None:
    assert World().after(BrokerDraining("later", retry_after_s=5.0)) == 5.0


SENSELESS = [
    InvalidArgument("no message"),
    InvalidArgument("`open` came twice", reason=Reason.INVALID_OPEN),
    ProtocolViolation("not due"),
]


@pytest.mark.parametrize("error", SENSELESS)
def test_a_message_that_makes_no_sense_is_taken_for_damage_a_few_times(error: Exception) -> None:
    world = World()
    assert world.after(error) is None  # at the start it is a wrong request
    world.reconnect.opened()

    assert [world.after(error) is None for _ in range(DAMAGED_MAX)] == [False] * (DAMAGED_MAX - 1) + [True]


def test_progress_between_two_damaged_messages_starts_over() -> None:
    world = World()
    world.reconnect.opened()
    for _ in range(10 * DAMAGED_MAX):
        assert world.after(InvalidArgument("no message")) is not None
        world.reconnect.progressed()


def test_an_outage_is_logged_at_once_and_warned_of_in_intervals() -> None:
    world = World()
    levels = []
    for _ in range(64):
        world.after(AWAY, 1.0)
        levels.append(world.reconnect.level())

    assert levels[0] == logging.INFO
    assert [number for number, level in enumerate(levels) if level == logging.WARNING] == [2, 32, 62]
    assert set(levels[1:]) == {logging.DEBUG, logging.WARNING}
    world.reconnect.opened()
    world.after(AWAY, 1.0)
    assert world.reconnect.level() == logging.INFO
