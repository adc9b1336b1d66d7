from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.delivery.message_builder import MESSAGE_BYTES, MESSAGE_PAGES, MessageBuilder
from forebay.broker.core.partition.pages import Entry
from tests.support.pages.samples import entry

MIB = 1 << 20


def page(number: int, size: int = MIB) -> Entry:
    return replace(entry(number), size=size)


def filled(filling: MessageBuilder, size: int = MIB, *, records: int = 10, offered: int = 1_000) -> int:
    """Offer pages until one is not taken; returns how many were."""
    for number in range(offered):
        each = page(number, size)
        if not filling.fits(each):
            break
        filling.add(each, records)
    assert filling.size == size * len(filling.entries)
    assert filling.records == records * len(filling.entries)
    return len(filling.entries)


def test_a_message_passes_the_usual_limit_of_grpc() -> None:
    assert filled(MessageBuilder()) * MIB == MESSAGE_BYTES <= (4 << 20) - (64 << 10)


def test_a_page_over_the_limit_goes_alone() -> None:
    assert filled(MessageBuilder(), MESSAGE_BYTES + 1) == 1


def test_small_pages_are_bounded_in_number() -> None:
    assert filled(MessageBuilder(), 1) == MESSAGE_PAGES


@pytest.mark.parametrize(("left", "taken"), [(1, 1), (10, 1), (11, 2), (25, 3)])
def test_the_page_that_uses_up_the_credit_in_records_still_goes(left: int, taken: int) -> None:
    assert filled(MessageBuilder(records_left=left), 1) == taken


@pytest.mark.parametrize(("left", "taken"), [(1, 1), (100, 1), (101, 2)])
def test_the_page_that_uses_up_the_credit_in_bytes_still_goes(left: int, taken: int) -> None:
    assert filled(MessageBuilder(bytes_left=left), 100) == taken


def test_a_probe_is_as_many_pages_as_are_allowed() -> None:
    assert filled(MessageBuilder(pages_max=2), 1) == 2
