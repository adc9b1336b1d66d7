from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.errors import RecordTooLarge, SinkFull
from forebay.broker.core.partition.log import RECENT_MAX, LiveUsage, PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.publish.limits import Drop, Wait, admit, demand
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from tests.support.pages.samples import entry
from tests.unit.broker.core.partition.test_log import append, stored


def rejecting(**limits: Any) -> SinkSettings:
    return replace(DEFAULTS, overflow=Overflow.REJECT, **limits)


def dropping(**limits: Any) -> SinkSettings:
    return replace(DEFAULTS, overflow=Overflow.DROP_OLDEST, **limits)


def log_of(*entries: Entry, number: int = 0) -> PartitionLog:
    log = PartitionLog(number)
    if entries:
        append(log, *entries)
    return log


def live(logs: list[PartitionLog]) -> LiveUsage:
    found = LiveUsage()
    for log in logs:
        log.count_for(found)
    return found


def decide(
    settings: SinkSettings,
    logs: list[PartitionLog],
    records: int,
    size: int,
    *,
    in_flight: tuple[set[int], ...] = (),
    staged: tuple[int, int] = (0, 0),
) -> list[Drop] | Wait:
    flying = [frozenset(bases) for bases in in_flight] or [frozenset[int]() for _ in logs]
    return admit("orders", settings, demand(settings, live(logs), staged, records, size), logs, flying)


def stage(settings: SinkSettings, logs: list[PartitionLog], staged: tuple[int, int], records: int, size: int) -> None:
    assert admit("orders", settings, demand(settings, live(logs), staged, records, size, is_staged=True), logs) == []


def test_queued_records_count_as_live_usage() -> None:
    log = log_of(entry(0, 3))
    log.reserve(2, 20)

    assert live([log, log_of(entry(0, 1), number=1)]) == LiveUsage(6, 60)


def test_the_bound_is_exact() -> None:
    settings = rejecting(max_disk_cache=5)
    logs = [log_of(entry(0, 3))]

    assert decide(settings, logs, 2, 20) == []
    with pytest.raises(SinkFull) as refused:
        decide(settings, logs, 3, 30)
    assert refused.value.facts == {"sink": "orders", "limit": "max_disk_cache", "bound": "5", "used": "3"}


def test_the_bound_in_bytes_is_exact_too() -> None:
    settings = rejecting(max_total_bytes=1024)
    logs = [log_of(entry(0, 1, size=1_000))]

    assert decide(settings, logs, 1, 24) == []
    with pytest.raises(SinkFull, match="max_total_bytes"):
        decide(settings, logs, 1, 25)


def test_zero_records_is_no_bound() -> None:
    assert decide(rejecting(max_disk_cache=0), [log_of(entry(0, 60_000))], 60_000, 1) == []


@pytest.mark.parametrize(
    ("limits", "records", "size"), [({"max_total_bytes": 1024}, 1, 1025), ({"max_disk_cache": 2}, 3, 1)]
)
def test_an_append_that_alone_exceeds_a_limit_is_refused_as_too_large(
    limits: dict[str, int], records: int, size: int
) -> None:
    with pytest.raises(RecordTooLarge):
        decide(rejecting(**limits), [log_of()], records, size)


def test_in_flight_counts_with_reject() -> None:
    with pytest.raises(SinkFull):
        decide(rejecting(max_disk_cache=1), [log_of(entry(0))], 1, 10, in_flight=({0},))


def test_the_oldest_page_is_dropped_for_a_new_one() -> None:
    logs = [log_of(entry(0, 2), entry(2, 2), entry(4, 2))]

    assert decide(dropping(max_disk_cache=6), logs, 1, 10) == [Drop(0, entry(0, 2))]
    assert decide(dropping(max_disk_cache=6), logs, 3, 30) == [Drop(0, entry(0, 2)), Drop(0, entry(2, 2))]


def test_both_limits_hold() -> None:
    logs = [log_of(entry(0, 1, size=10), entry(1, 1, size=1_000), entry(2, 1, size=10))]

    assert decide(dropping(max_disk_cache=3, max_total_bytes=1_020), logs, 1, 10) == [
        Drop(0, entry(0, 1, size=10)),
    ]
    assert decide(dropping(max_disk_cache=3, max_total_bytes=1_024), logs, 1, 500) == [
        Drop(0, entry(0, 1, size=10)),
        Drop(0, entry(1, 1, size=1_000)),
    ]


def test_the_oldest_over_all_partitions_goes_first() -> None:
    logs = [
        log_of(entry(0, age_us=5), entry(1, age_us=6)),
        log_of(entry(0, age_us=1), entry(1, age_us=9), number=1),
    ]

    found = decide(dropping(max_disk_cache=4), logs, 3, 30)

    assert found == [Drop(1, entry(0, age_us=1)), Drop(0, entry(0, age_us=5)), Drop(0, entry(1, age_us=6))]


def test_pages_in_flight_are_never_dropped() -> None:
    logs = [log_of(entry(0), entry(1))]

    assert decide(dropping(max_disk_cache=2), logs, 1, 10, in_flight=({0},)) == [Drop(0, entry(1))]
    assert decide(dropping(max_disk_cache=2), logs, 1, 10, in_flight=({0, 1},)) == []


def test_the_newest_page_is_kept_even_when_it_alone_is_over_the_limit() -> None:
    assert decide(dropping(max_total_bytes=1024), [log_of()], 1, 5_000) == []
    assert decide(dropping(max_total_bytes=1024), [log_of(entry(0))], 1, 5_000) == [Drop(0, entry(0))]


def test_pages_that_wait_for_their_batch_are_waited_for() -> None:
    log = log_of()
    log.reserve(2, 20)

    assert decide(dropping(max_disk_cache=2), [log], 1, 10) == Wait(load=None)


def test_entries_that_are_not_in_memory_are_asked_for() -> None:
    log = PartitionLog(0)
    append(log, *(entry(at) for at in range(3 * RECENT_MAX)))
    log = stored(log)

    assert decide(dropping(max_disk_cache=3 * RECENT_MAX), [log], 1, 10) == Wait(load=0)


def test_more_entries_are_asked_for_when_all_that_are_loaded_are_in_flight() -> None:
    entries = [entry(at) for at in range(3 * RECENT_MAX)]
    log = PartitionLog(0)
    append(log, *entries)
    log = stored(log)
    log.offer_oldest(entries[:3], 3)
    flying = ({0, 1, 2},)

    assert decide(dropping(max_disk_cache=3 * RECENT_MAX), [log], 1, 10, in_flight=flying) == Wait(load=0)


def test_live_and_staged_records_stay_within_the_limit_together() -> None:
    settings = rejecting(max_disk_cache=5)
    logs = [log_of(entry(0, 2))]

    stage(settings, logs, (2, 20), 1, 10)
    with pytest.raises(SinkFull) as refused:
        stage(settings, logs, (2, 20), 2, 20)

    assert (refused.value.facts["used"], refused.value.facts["staged"]) == ("4", "2")


def test_live_and_staged_bytes_do_too() -> None:
    settings = rejecting(max_total_bytes=1024)
    logs = [log_of(entry(0, 1, size=500))]

    stage(settings, logs, (1, 500), 1, 24)
    with pytest.raises(SinkFull, match="500 of it staged"):
        stage(settings, logs, (1, 500), 1, 25)


def test_staged_records_count_against_the_limit_of_an_append_to_a_sink_that_rejects() -> None:
    settings = rejecting(max_disk_cache=5)
    logs = [log_of(entry(0, 2))]

    assert decide(settings, logs, 1, 10, staged=(2, 20)) == []
    with pytest.raises(SinkFull) as refused:
        decide(settings, logs, 2, 20, staged=(2, 20))
    assert refused.value.facts["staged"] == "2"


def test_live_and_staged_records_each_have_the_limit_in_a_sink_that_drops_the_oldest() -> None:
    settings = dropping(max_disk_cache=5)
    logs = [log_of(entry(0, 5))]

    stage(settings, logs, (4, 40), 1, 10)
    with pytest.raises(SinkFull):
        stage(settings, logs, (5, 50), 1, 10)
    assert decide(settings, [log_of(entry(0, 4))], 1, 10, staged=(5, 50)) == []


@pytest.mark.parametrize("settings", [rejecting(max_disk_cache=5), dropping(max_disk_cache=5)])
def test_a_page_that_an_empty_sink_could_not_take_is_refused_for_good(settings: SinkSettings) -> None:
    with pytest.raises(RecordTooLarge):
        stage(settings, [log_of()], (0, 0), 6, 60)
    with pytest.raises(RecordTooLarge):
        stage(replace(settings, max_total_bytes=1024), [log_of()], (0, 0), 1, 1025)


class CountedList(list[Entry]):
    """A list that counts the entries that are read from it."""

    read = 0

    def __iter__(self) -> Iterator[Entry]:
        for each in super().__iter__():
            self.read += 1
            yield each


def test_a_drop_reads_no_more_entries_than_it_needs() -> None:
    log = log_of(*(entry(at, age_us=at) for at in range(100)))
    log.recent = found = CountedList(log.recent)

    drops = decide(dropping(max_disk_cache=100), [log], 2, 20, in_flight=({0, 1},))

    assert drops == [Drop(0, entry(2, age_us=2)), Drop(0, entry(3, age_us=3))]
    assert found.read <= 5
