"""Reading all partitions of a sink again over gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientSettings,
    Gap,
    GapError,
    Overflow,
    PageReplay,
    Record,
    ReplayedRecord,
    ReplayOptions,
    SinkNotFound,
    StoredPage,
)
from forebay.client.replay.pages import AHEAD_S
from forebay.client.replay.sinks import PAGES_LEFT, SinkPages
from forebay.client.transport.channel import Channels
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.refusals import failure

PARTITIONS = 3
MANY = 8


def fill(client: Client, *, partitions: int = PARTITIONS, pages: int = 10) -> list[tuple[int, int, bytes]]:
    """Publish pages of two records to each partition; return place and value of each record, by place."""
    client.sinks.create("orders", partitions=partitions, buffer_page_size=1)
    for page in range(pages):
        for partition in range(partitions):
            values = [b"%d-%d" % (partition, 2 * page + number) for number in range(2)]
            client.publish("orders", [Record(value) for value in values], partition=partition)
    return [(partition, at, b"%d-%d" % (partition, at)) for partition in range(partitions) for at in range(2 * pages)]


def fill_with_much(client: Client) -> None:
    """Publish pages of 4 MiB to two partitions: more than is in transit before it is read."""
    client.sinks.create("orders", partitions=2)
    with client.publisher("orders") as publisher:
        for number in range(2 * MANY):
            publisher.send(bytes(4 << 20), partition=number % 2)


def records(steps: Iterator[ReplayedRecord | Gap]) -> list[tuple[int, int, bytes]]:
    return [(one.partition, one.offset, one.value) for one in steps if isinstance(one, ReplayedRecord)]


@pytest.mark.parametrize("pages", [1, PAGES_LEFT, PAGES_LEFT + 1, 30])
def test_all_partitions_are_read_one_after_another(client: Client, pages: int) -> None:
    written = fill(client, pages=pages)

    assert records(client.replay("orders")) == written


def test_partitions_that_hold_nothing_are_passed(client: Client) -> None:
    client.sinks.create("orders", partitions=5)
    for partition in (1, 3):
        client.publish("orders", [Record(b"x")], partition=partition)

    assert records(client.replay("orders")) == [(1, 0, b"x"), (3, 0, b"x")]


def test_an_empty_sink_has_no_records(client: Client) -> None:
    client.sinks.create("orders", partitions=2)

    assert list(client.replay("orders")) == []


@pytest.mark.parametrize("options", [{"start": 3}, {"end": 3}, {"follow": True}, {"start": 1, "end": 3}])
def test_options_of_one_partition_are_refused_for_a_sink_with_several(client: Client, options: ReplayOptions) -> None:
    fill(client)

    with failure(Reason.INVALID_RANGE, match=f"has 3 partitions: {' and '.join(options)} require a partition"):
        next(client.replay("orders", **options))


def test_a_sink_of_one_partition_needs_no_name_for_it(client: Client) -> None:
    written = fill(client, partitions=1)

    assert records(client.replay("orders", start=3, end=7)) == written[3:7]


def test_a_missing_sink_is_reported(client: Client) -> None:
    with pytest.raises(SinkNotFound):
        next(client.replay("orders"))


def test_gaps_of_every_partition_are_reported(client: Client) -> None:
    client.sinks.create("orders", partitions=2, overflow=Overflow.DROP_OLDEST, max_disk_cache=4, buffer_page_size=1)
    for number in range(2):
        client.publish("orders", [Record(b"in flight")], partition=number)
    assert len(client.pull("orders")) == 2
    for number in range(4):
        client.publish("orders", [Record(b"%d" % number)], partition=number % 2)

    steps = list(client.replay("orders", on_gap="yield"))

    assert [(step.partition, step.first_offset) for step in steps if isinstance(step, Gap)] == [(0, 1), (1, 1)]
    assert [one.value for one in steps if isinstance(one, ReplayedRecord)] == [b"in flight", b"2", b"in flight", b"3"]
    with pytest.raises(GapError):
        list(client.replay("orders"))


def test_the_next_partition_is_opened_when_a_few_pages_are_left_and_closing_ends_both(
    broker: BrokerServer, client: Client
) -> None:
    fill_with_much(client)
    assert broker.serving is not None
    serving = broker.serving
    pages = client.replay_pages("orders")

    def read(count: int) -> None:
        for _ in range(count):
            next(pages)

    def opened() -> bool:
        assert isinstance(pages._pages, SinkPages)
        left = pages._pages._left
        return left is not None and left[1]._call is not None

    read(MANY - PAGES_LEFT - 1)
    assert not opened()
    read(1)
    assert opened()
    pages.close()

    assert list(pages) == []
    # The one that remains is that of the statistics.
    stats_when(client, "orders", lambda _: len(serving.broker.streams) == 1)


def partition(client: Client, number: int, clock: FakeClock) -> PageReplay:
    channels = Channels(client.endpoints, client.settings)
    return PageReplay(channels, "orders", partition=number, clock=clock.monotonic)


def offsets(pages: PageReplay) -> list[int]:
    return [page.first_offset for page in pages if isinstance(page, StoredPage)]


def test_a_stream_opened_ahead_is_read_from_if_that_is_soon(client: Client) -> None:
    fill(client)
    clock = FakeClock()
    pages = partition(client, 0, clock)
    pages.begin()
    call = pages._pages._call
    clock.advance(AHEAD_S)

    assert offsets(pages) == list(range(0, 20, 2))
    assert pages._pages._call is call


def test_a_stream_opened_ahead_too_long_ago_is_opened_again(client: Client) -> None:
    """Else it would look for what has been settled and trimmed since."""
    fill(client)
    clock = FakeClock()
    pages = partition(client, 0, clock)
    pages.begin()
    client.ack("orders", [one for one in client.pull("orders") if one.partition == 0 and one.offset < 8])
    stats_when(client, "orders", lambda stats: stats.partitions[0].earliest_offset == 8)
    clock.advance(AHEAD_S + 0.1)

    assert offsets(pages) == list(range(8, 20, 2))


def test_a_stream_opened_ahead_that_broke_is_opened_again() -> None:
    with BrokerServer.in_memory() as server, Client(server.endpoint) as client:
        fill(client)
        pages = partition(client, 1, FakeClock())
        pages.begin()
        assert pages._pages._call is not None
        pages._pages._call.cancel()

        assert offsets(pages) == list(range(0, 20, 2))


def test_a_broker_that_is_gone_is_reported_when_the_first_page_is_asked_for() -> None:
    with BrokerServer.in_memory() as server:
        client = Client(server.endpoint, settings=ClientSettings(reattach_timeout_s=0.0))
        fill(client)
    pages = client.replay_pages("orders", partition=1)
    assert isinstance(pages, PageReplay)
    pages.begin()

    with client, pytest.raises(BrokerUnavailable):
        next(pages)
