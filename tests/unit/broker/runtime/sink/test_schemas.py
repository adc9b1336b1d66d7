"""Versions of a sink's schema: numbered without gaps, reported once durable, and never changed."""

from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.errors import BrokerError, InvalidPage, SchemaNotFound, SinkNotFound
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import SchemaRecord
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink import schemas as module
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.store import RESTORED
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import sink
from tests.support.brokers.running import begin, running
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


async def register(buffer: Buffer, arrow: bytes, previous: int, spark: str = "") -> int:
    return await buffer.schemas.register(arrow, spark, previous=previous)


async def test_versions_count_from_one_and_the_latest_bytes_are_the_latest_version() -> None:
    async with sink() as buffer:
        versions = [await register(buffer, *each) for each in ((b"a", 0), (b"b", 1), (b"b", 0), (b"a", 2))]

        assert versions == [1, 2, 2, 3]
        assert (await buffer.schemas.get(0)).version == buffer.schemas.latest == 3
        assert (await buffer.schemas.get(2)).arrow_schema == b"b"


async def test_versions_after_a_restore_are_above_all_that_may_have_been_registered_since_the_backup() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", DEFAULTS)
        await register(buffer, b"a", 0)
    store = store.reopen()
    at_s = module.ORIGIN_S + 200_000_000
    store.write([RESTORED.put(RESTORED.key(), Restored("5" * 32, "b", 1, at_s * 1_000_000))])

    async with running(store) as broker:
        buffer = broker.sink("orders")
        versions = [await register(buffer, *each) for each in ((b"a", 1), (b"b", 1), (b"c", 200_000_000))]

        assert versions == [1, 200_000_000, 200_000_001]
        buffer.schemas.check_page(200_000_000)
        with pytest.raises(InvalidPage, match="no version 2 of its schema; its latest is 200000001"):
            buffer.schemas.check_page(2)


async def test_another_spark_schema_is_another_version() -> None:
    async with sink() as buffer:
        assert await register(buffer, b"a", 0, "{}") == 1
        assert await register(buffer, b"a", 1, '{"x": 1}') == 2


async def test_a_registration_compared_with_an_older_version_is_refused_with_the_latest_version() -> None:
    async with sink() as buffer:
        await register(buffer, b"a", 0)

        with refusal(Reason.SCHEMA_CHANGED) as refused:
            await register(buffer, b"b", 0)

        assert (refused.value.facts["compared"], refused.value.facts["latest"]) == ("0", "1")
        assert buffer.schemas.latest == 1


async def test_of_two_that_register_at_once_one_has_to_look_again() -> None:
    async with sink() as buffer:
        found = await asyncio.gather(register(buffer, b"a", 0), register(buffer, b"b", 0), return_exceptions=True)

        assert found[0] == 1
        assert isinstance(found[1], BrokerError)
        assert found[1].reason is Reason.SCHEMA_CHANGED


@pytest.mark.parametrize(
    ("arrow", "spark", "field"),
    [
        (b"", "", "arrow_schema"),
        (b"x" * (module.SCHEMA_BYTES_MAX + 1), "", "arrow_schema"),
        (b"x", "x" * (module.SCHEMA_BYTES_MAX + 1), "spark_schema"),
    ],
)
async def test_an_invalid_schema_is_refused_with_the_name_of_its_field(arrow: bytes, spark: str, field: str) -> None:
    async with sink() as buffer:
        with refusal(Reason.INVALID_SCHEMA) as refused:
            await register(buffer, arrow, 0, spark)

        assert refused.value.facts["field"] == field


async def test_all_versions_together_are_bounded() -> None:
    async with sink() as buffer:
        large = module.ALL_BYTES_MAX // module.SCHEMA_BYTES_MAX
        for version in range(large):
            await register(buffer, bytes([version]) * module.SCHEMA_BYTES_MAX, version)

        with refusal(Reason.INVALID_SCHEMA, match="together"):
            await register(buffer, b"x", large)


async def test_the_latest_version_is_registered_again_when_no_further_version_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sink() as buffer:
        await register(buffer, b"ab", 0)
        monkeypatch.setattr(module, "ALL_BYTES_MAX", 2)
        again = [await register(buffer, b"ab", 0)]
        monkeypatch.setattr(module, "VERSIONS_MAX", 1)
        again.append(await register(buffer, b"ab", 0))

        with refusal(Reason.INVALID_SCHEMA, match="at most 1 versions"):
            await register(buffer, b"c", 1)
        assert again == [1, 1]


async def test_a_version_is_reported_when_it_is_durable() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        store.hold()
        registering = asyncio.ensure_future(register(buffer, b"a", 0))
        again = asyncio.ensure_future(register(buffer, b"a", 0))
        await store.reached()
        getting = asyncio.ensure_future(buffer.schemas.get(0))
        listing = asyncio.ensure_future(buffer.schemas.list(0, 9))
        await asyncio.sleep(0)
        before = [each.done() for each in (registering, again, getting, listing)]

        store.let_go()
        found = await asyncio.gather(registering, again, getting, listing)

        assert before == [False] * 4
        assert (found[0], found[1], found[2].version) == (1, 1, 1)


async def test_versions_survive_a_restart_and_go_with_their_sink() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", DEFAULTS)
        await register(buffer, b"a", 0, "{}")
    async with running(again := store.reopen(), FakeClock()) as broker:
        found = await broker.sink("orders").schemas.get(1)
        assert (found.arrow_schema, found.spark_schema) == (b"a", "{}")
        assert await register(broker.sink("orders"), b"b", 1) == 2

        await broker.delete("orders", force=True)

        assert again.scan(Family.META, *SCHEMA.under(), 9) == []


async def test_a_version_that_was_damaged_is_missing_and_its_number_stays_taken() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", DEFAULTS)
        await register(buffer, b"a", 0)
        number = buffer.record.id
    store = store.reopen()
    store.write([Put(Family.META, SCHEMA.key(number, 1), b"noise")])

    broker = begin(store, FakeClock())
    buffer = broker.sink("orders")

    with pytest.raises(SchemaNotFound, match="was damaged and is lost") as lost:
        await buffer.schemas.get(0)
    assert lost.value.facts["latest"] == "1"
    assert [one.lost for one in await buffer.schemas.list(0, 9)] == [True]
    assert await register(buffer, b"a", 1) == 2
    await broker.close()


async def test_rows_may_name_only_a_version_that_was_given() -> None:
    async with sink() as buffer:
        with pytest.raises(InvalidPage, match="it has none"):
            buffer.schemas.check_page(1)
        await register(buffer, b"a", 0)

        buffer.schemas.check_page(1)

        for version in (0, 2):
            with pytest.raises(InvalidPage, match="its latest is 1"):
                buffer.schemas.check_page(version)


async def test_a_list_continues_after_a_version() -> None:
    async with sink() as buffer:
        for version in range(5):
            await register(buffer, b"%d" % version, version)

        assert [one.version for one in await buffer.schemas.list(1, 3)] == [2, 3, 4]
        assert await buffer.schemas.list(5, 3) == []


async def test_a_sink_that_is_gone_takes_no_schema() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", DEFAULTS)
        await broker.delete("orders", force=True)

        with pytest.raises(SinkNotFound):
            await register(buffer, b"a", 0)


def test_a_version_without_content_is_a_lost_one() -> None:
    assert SchemaRecord(1, 0, b"", "").lost
    assert not SchemaRecord(1, 0, b"a", "").lost
