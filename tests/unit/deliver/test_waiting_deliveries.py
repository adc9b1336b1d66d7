"""Deliveries that wait for something else than the target do not expire."""

from __future__ import annotations

import pytest

from forebay.deliver.waiting_deliveries import WaitingDeliveries
from tests.support.targets.memory_source import MemoryDelivery, records


def test_a_delivery_is_extended_while_it_waits_and_not_afterwards() -> None:
    waiting = WaitingDeliveries()
    one, other = MemoryDelivery(records(1)), MemoryDelivery(records(1), partition=1)

    with waiting.extended(one):
        with waiting.extended(other):
            waiting.extend()
        waiting.extend()
    waiting.extend()

    assert (one.extended, other.extended) == (2, 1)


def test_a_delivery_whose_wait_fails_is_extended_no_more() -> None:
    waiting, one = WaitingDeliveries(), MemoryDelivery(records(1))

    with pytest.raises(ZeroDivisionError), waiting.extended(one):
        raise ZeroDivisionError
    waiting.extend()

    assert one.extended == 0
