"""``at_most_once`` consumers while their position store is unreachable: bounded, with no batch lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from forebay.client import Client, Record
from forebay.client.errors import Closed, ForebayError, PositionStoreUnavailable
from forebay.client.positions.consumer import Batch, CheckpointedConsumer
from forebay.client.positions.settings import ConsumerSettings
from forebay.client.positions.stores.memory import MemoryPositions
from forebay.client.transport.channel import Channels
from tests.support.calls.eventually import until
from tests.support.positions.flaky import FlakyPositions

WAIT_S = 30.0


@pytest.fixture
def store() -> FlakyPositions:
    return FlakyPositions(MemoryPositions())


@pytest.fixture
def opened(client: Client, store: FlakyPositions) -> Iterator[Callable[..., CheckpointedConsumer]]:
    """Opens consumers of ``orders``, which has four records in as many pages, and closes them."""
    client.sinks.create("orders", buffer_page_size=1)
    for _ in range(4):
        client.publish("orders", [Record(b"x")])
    with ExitStack() as opened:

        def open_one(*, guarantee: str = "at_most_once", save_failures_max: int | None = None) -> CheckpointedConsumer:
            settings = ConsumerSettings(
                guarantee=guarantee, save_failures_max=save_failures_max, stop_timeout_s=0.2, frequency_s=3600.0
            )
            channels = Channels(client.endpoints, client.settings)
            one = CheckpointedConsumer(channels, "orders", "billing", store=store, settings=settings)
            opened.callback(suppressing, one.close)
            return one

        yield open_one


def suppressing(close: Callable[[], None]) -> None:
    with suppress(ForebayError):
        close()


def first_batch(one: CheckpointedConsumer) -> Batch:
    batch = one.take(WAIT_S)
    assert batch is not None
    return batch


def test_a_batch_whose_save_takes_longer_than_the_time_limit_is_returned_by_a_later_call(
    opened: Callable[..., CheckpointedConsumer], store: FlakyPositions
) -> None:
    one = opened()
    assert first_batch(one).first_offset == 0
    store.failures.extend(["before"] * 1000)

    assert one.take(0.3) is None
    assert one.take(0) is None
    store.failures.clear()

    assert [first_batch(one).first_offset for _ in range(3)] == [1, 2, 3]


def test_a_batch_is_kept_when_the_saves_that_may_fail_are_used_up(
    opened: Callable[..., CheckpointedConsumer], store: FlakyPositions
) -> None:
    one = opened(save_failures_max=1)
    assert first_batch(one).first_offset == 0
    store.failures.extend(["before"] * 1000)

    for _ in range(2):
        with pytest.raises(PositionStoreUnavailable, match="save_failures_max is 1"):
            one.take(WAIT_S)
    store.failures.clear()
    until(lambda: one.statistics.saves.failed_in_a_row == 0)

    assert first_batch(one).first_offset == 1


def test_a_thread_that_waits_for_a_batch_ends_when_another_one_closes_the_consumer(
    opened: Callable[..., CheckpointedConsumer], store: FlakyPositions
) -> None:
    one = opened()
    assert first_batch(one).first_offset == 0
    store.failures.extend(["before"] * 1000)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(one.take)
        until(lambda: one.statistics.saves.failed > 0)
        one.close()
        with pytest.raises(Closed):
            waiting.result(WAIT_S)


def test_a_batch_that_was_not_handed_out_before_the_close_is_read_by_the_next_consumer(
    opened: Callable[..., CheckpointedConsumer], store: FlakyPositions
) -> None:
    one = opened()
    assert first_batch(one).first_offset == 0
    store.failures.extend(["before"] * 1000)
    assert one.take(0.1) is None
    one.close()
    store.failures.clear()

    assert first_batch(opened()).first_offset == 1


def test_a_thread_that_saves_on_request_ends_when_another_one_closes_the_consumer(
    opened: Callable[..., CheckpointedConsumer], store: FlakyPositions
) -> None:
    one = opened(guarantee="at_least_once")
    first_batch(one).finish()
    store.failures.extend(["before"] * 1000)

    with ThreadPoolExecutor(1) as threads:
        saving = threads.submit(one.save)
        until(lambda: one.statistics.saves.failed > 0)
        with pytest.raises(PositionStoreUnavailable, match=r"not saved within 0.2 s"):
            one.close()
        with pytest.raises(Closed):
            saving.result(WAIT_S)
