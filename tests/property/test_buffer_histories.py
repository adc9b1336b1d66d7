"""Histories of one sink that a long campaign found, or that are rare in random ones, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.settings import DEFAULTS
from tests.property.test_buffer_model import BufferInMemory


def test_a_failure_that_came_after_the_appends_is_not_made_durable_by_their_answers() -> None:
    """The model once took it for durable, which a long campaign found."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, partitions=2, buffer_page_size=1))
    machine.append(at=1, count=1)
    machine.deliver(at=1, records=None)
    machine.append_several_and_do_not_wait(at=0, counts=[1, 1])
    machine.lose_the_consumer()
    machine.fail_to_sync(kept=0, at=0)
    machine.the_account_is_the_model_s()
    machine.teardown()


def test_the_rest_of_a_page_in_flight_may_be_sent_when_it_is_too_old() -> None:
    """A page goes as a whole, and not while it is in flight; a long campaign found that the model forbade it."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, max_age_us=40_000_000))
    machine.append(at=0, count=2)
    machine.let_time_pass(seconds=31.0)
    machine.deliver(at=0, records=1)
    machine.let_time_pass(seconds=5.0)
    machine.let_time_pass(seconds=5.0)
    machine.deliver(at=0, records=1)
    assert list(machine.model[0].in_flight) == [0, 1]
    machine.teardown()


@pytest.mark.parametrize("page", [0, 1])
def test_of_two_pages_one_acked_and_after_the_other_either_may_be_damaged(page: int) -> None:
    """Rare in a random history."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, buffer_page_size=1))
    machine.append(at=0, count=2)
    machine.append(at=0, count=2)
    machine.deliver(at=0, records=None)
    machine.ack(at=0, skip=2, count=2)
    machine.damage_while_stopped(at=page, consumer_first=False)
    machine.the_account_is_the_model_s()
    machine.kill_and_start(yields=0, kept=0)
    machine.the_account_is_the_model_s()
    machine.teardown()
