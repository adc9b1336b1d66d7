from __future__ import annotations

import pytest

from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.read.quarantine import Quarantine


def entry(number: int) -> Entry:
    return Entry(number * 10, 10, number, False, 100, 1, 0, 0, 0, 0, ())


def test_a_page_that_goes_for_a_newer_one_is_counted_and_logged_with_its_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quarantine = Quarantine(pages_max=2)

    _, due = quarantine.keep(1, 0, [entry(number) for number in range(3)])

    assert [one.first for one in due] == [0]
    assert (quarantine.pages, quarantine.size, quarantine.evicted) == (2, 200, 1)
    assert "first=0 end=10 bytes=100" in caplog.text


def test_a_sink_that_is_deleted_takes_its_pages_along() -> None:
    quarantine = Quarantine()
    quarantine.keep(1, 0, [entry(1)])
    quarantine.keep(2, 0, [entry(2)])

    quarantine.remove_sink(1)

    assert (quarantine.pages, quarantine.size, quarantine.evicted) == (1, 100, 0)
