"""A wrong setting in the store is corrected and logged; its sink and partitions stay available."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.settings import DEFAULTS, SinkSettings
from forebay.broker.core.writes import PutSink
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio


async def stored_with(wrong: dict[str, Any], *, partitions: int = 1) -> MemoryStore:
    """A store whose sink `orders` has two records in each partition, and invalid settings."""
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, partitions=partitions))
        for partition in range(partitions):
            await fill(buffer, 2, partition=partition)
        await broker.committer.write([PutSink(replace(buffer.record, settings=replace(buffer.settings, **wrong)))])
    return store.reopen()


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_disk_cache": "ten"},
        {"max_age_us": 5},
        {"max_age_us": None},
        {"overflow": [1]},
        {"realtime": "no"},
        {"retry_backoff_factor": {}},
        {"ack_deadline_us": -1},
    ],
)
async def test_a_wrong_value_of_any_type_is_the_default_and_the_sink_works(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with running(await stored_with(wrong)) as broker:
        buffer = broker.sink("orders")
        [name] = wrong

        assert buffer.settings == SinkSettings(buffer_page_size=1)
        assert await Taker(buffer.subscription("")).all_offsets() == [0, 1]
    told = [record.message for record in caplog.records if "stored setting was corrected" in record.message]
    assert len(told) == 1
    assert f"sink=orders problem={name.removesuffix('_us')} = " in told[0]


@pytest.mark.parametrize("wrong", ["three", 0, None, 5_000])
async def test_a_wrong_number_of_partitions_loses_none_that_holds_something(wrong: Any) -> None:
    async with running(await stored_with({"partitions": wrong}, partitions=3)) as broker:
        buffer = broker.sink("orders")

        assert buffer.settings.partitions == len(buffer.logs) == 3
        assert [log.records for log in buffer.logs] == [2, 2, 2]


async def test_a_new_sink_of_that_name_is_none_and_the_defaults_are_good() -> None:
    async with running(await stored_with({"partitions": "x", "overflow": None})) as broker:
        assert broker.sink("orders").settings == replace(DEFAULTS, buffer_page_size=1)
        await broker.update("orders", {"max_disk_cache": 7})

        assert broker.sink("orders").settings.max_disk_cache == 7
