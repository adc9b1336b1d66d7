"""Rows with a schema, over the wire: kept as pages, read as Arrow batches or one by one as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from forebay.arrow import encode_batches
from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import (
    Client,
    Delivery,
    DeliveryState,
    DropReason,
    Encoding,
    Gap,
    InvalidPage,
    Publisher,
    SchemaChanged,
    SchemaNotFound,
    SinkNotFound,
    StoredPage,
    arrow,
)
from forebay.client.publish.pages import EncodedPage
from forebay.client.replay.rows import encode_rows
from forebay.deliver import Batch, BatchLimits, Delivered, Deliverer, Outcome, Target, TargetContext
from forebay.deliver.targets.file import FileTarget
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2
from tests.support.calls.eventually import stats_when
from tests.support.pages.invalid_text import unchecked_strings
from tests.support.refusals import failure

BATCH = pa.record_batch({"id": pa.array([1, 2, 3, 4]), "name": pa.array(["a", None, "c", "d"])})
JSON = [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}', b'{"id":3,"name":"c"}', b'{"id":4,"name":"d"}']
VERSION = (("forebay.schema_version", b"1"),)


@pytest.fixture
def orders(client: Client) -> Iterator[Publisher]:
    """A publisher to the sink `orders`, whose schema is that of the batch."""
    client.sinks.create("orders")
    assert client.schemas.register("orders", arrow.encode_schema(BATCH.schema), previous=0) == 1
    with client.publisher("orders") as publisher:
        yield publisher


def publish(publisher: Publisher, *pages: EncodedPage) -> None:
    for page in pages:
        publisher.send_page(page, partition=0).result(20)


def deliver_all(client: Client, target: Target) -> None:
    """Run a deliverer until nothing waits."""
    deliverer = Deliverer(client, "orders", target)
    thread = Thread(target=deliverer.run, name="deliverer")
    thread.start()
    stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].pending == 0)
    deliverer.stop()
    thread.join(20)


def test_schemas_are_registered_found_and_listed(client: Client) -> None:
    client.sinks.create("orders")
    assert client.schemas.latest("orders") == (0, None)

    first = client.schemas.register("orders", b"one", previous=0, spark_schema="{}")
    second = client.schemas.register("orders", b"two", previous=1)

    assert (first, second) == (1, 2)
    assert client.schemas.register("orders", b"two", previous=0) == 2, "the same as the latest is the latest"
    assert client.schemas.get("orders").arrow_schema == b"two"
    assert (client.schemas.get("orders", 1).arrow_schema, client.schemas.get("orders", 1).spark_schema) == (
        b"one",
        "{}",
    )
    listed = client.schemas.list("orders")
    assert [(one.version, one.arrow_schema) for one in listed] == [(1, b""), (2, b"")]
    assert listed[0].registered_at == client.schemas.get("orders", 1).registered_at


def test_each_kind_of_schema_error_has_its_own_class_or_reason(client: Client) -> None:
    client.sinks.create("orders")
    client.schemas.register("orders", b"one", previous=0)

    with pytest.raises(SchemaChanged):
        client.schemas.register("orders", b"two", previous=0)
    with failure(Reason.INVALID_SCHEMA):
        client.schemas.register("orders", b"", previous=1)
    with pytest.raises(SchemaNotFound) as missing:
        client.schemas.get("orders", 9)
    assert missing.value.latest == 1
    with pytest.raises(SinkNotFound):
        client.schemas.get("nowhere")


def test_pages_of_rows_are_read_as_batches(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1), arrow.page(BATCH.slice(0, 2), 1, compression="lz4"))

    with client.replay_pages("orders", partition=0, start=1) as replay:
        pages = [page for page in replay if isinstance(page, StoredPage)]

    assert [page.encoding for page in pages] == [Encoding.ARROW] * 2
    assert [(page.base_offset, page.first_offset, page.record_count) for page in pages] == [(0, 1, 4), (4, 4, 2)]
    assert arrow.record_batch(pages[0]).equals(BATCH.slice(1))
    assert arrow.record_batch(pages[1]).equals(BATCH.slice(0, 2))
    assert arrow.arrow_schema(arrow.schema_of(pages[0])).equals(BATCH.schema)


def test_rows_one_by_one_are_json_objects(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1))

    replayed = list(client.replay("orders", partition=0, start=1, end=3))
    peeked = client.peek("orders", offset=1, max_records=2)
    pulled = client.pull("orders", max_records=10)

    assert [record.value for record in replayed if hasattr(record, "value")] == JSON[1:3]
    assert [(record.offset, record.value, record.format) for record in peeked] == [
        (1, JSON[1].decode(), "json"),
        (2, JSON[2].decode(), "json"),
    ]
    assert peeked[0].headers == {"forebay.schema_version": "1"}
    assert [(record.value, record.headers, record.key) for record in pulled] == [(text, VERSION, None) for text in JSON]


def test_a_subscriber_takes_and_settles_single_rows(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1))

    with client.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        records = list(delivery)
        delivery.ack(0, 1, wait=True)
        delivery.nack(offset=2, delay_s=0, wait=True)
        again = subscriber.take(20)
        assert again is not None

        assert [(record.value, record.headers) for record in records] == [(text, VERSION) for text in JSON]
        assert [record.value for record in again] == JSON[2:]
        assert again.values() == JSON[2:]
        assert arrow.record_batch(again.pages()[0]).equals(BATCH.slice(2))
        assert client.sinks.explain("orders", 1).state.value == "ACKED"


def test_a_row_that_is_rejected_is_a_dead_letter_and_can_be_sent_again(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1))

    with client.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        delivery.dead_letter("no such customer", offset=1, wait=True)
        [letter] = client.dead_letters.list("orders")
        delivery.ack(2, 3, wait=True)
        delivery.ack(0, wait=True)
        client.dead_letters.redrive("orders")
        again = subscriber.take(20)
        assert again is not None
        [record] = again

    assert (letter.record.value, letter.record.headers, letter.origin_offset) == (JSON[1], VERSION, 1)
    assert (record.offset, record.value, record.headers) == (4, JSON[1], VERSION)


def test_rows_with_a_dictionary_are_plain_rows_to_every_reader(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1, dictionary=["name"], compression="lz4"))

    with client.replay_pages("orders", partition=0) as replay:
        [page] = [each for each in replay if isinstance(each, StoredPage)]
    replayed = [record.value for record in client.replay("orders", partition=0) if hasattr(record, "value")]
    peeked = [record.value.encode() for record in client.peek("orders", max_records=10)]
    with client.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        delivered = [record.value for record in delivery]
        delivery.dead_letter("no such customer", offset=1, wait=True)
        delivery.nack(offset=0, delay_s=0, wait=True)
    [letter] = client.dead_letters.list("orders")
    client.dead_letters.redrive("orders")
    pulled = client.pull("orders", max_records=10)

    assert arrow.record_batch(page).equals(BATCH, check_metadata=True)
    assert replayed == peeked == delivered == JSON
    assert (letter.record.value, letter.record.headers) == (JSON[1], VERSION)
    assert [record.value for record in pulled] == [JSON[0], JSON[2], JSON[3]]
    assert [(record.offset, record.value.encode()) for record in client.peek("orders", offset=4)] == [(4, JSON[1])]
    assert client.schemas.latest("orders")[0] == 1


def test_a_page_that_would_fill_the_memory_is_decoded_by_no_peek_pull_or_replay(client: Client) -> None:
    bomb = pa.record_batch({"a": [bytes(65 << 20)]})
    client.sinks.create("bombs")
    client.schemas.register("bombs", arrow.encode_schema(bomb.schema), previous=0)
    page = encode_rows(1, 1, encode_batches([bomb], "zstd"))
    assert len(page.body) < 1 << 20
    with client.publisher("bombs") as publisher:
        publish(publisher, page)

    why = r"they become 681574.. bytes, and at most"

    [peeked], [pulled] = client.peek("bombs"), client.pull("bombs")
    with pytest.raises(InvalidPage, match=rf"offset 0 of partition 0 cannot be decoded: .* {why}"):
        list(client.replay("bombs", partition=0))

    assert (peeked.format, bool(re.search(why, peeked.value))) == ("unreadable", True)
    assert (pulled.value, bool(re.search(why, pulled.unreadable))) == (b"", True)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (arrow.page(BATCH, 2), "no version 2"),
        (arrow.page(BATCH, 0), "names no version"),
        (EncodedPage(b"nonsense", 1, Encoding.ARROW), "cannot be parsed"),
        (EncodedPage(arrow.page(BATCH, 1).body, 3, Encoding.ARROW), "holds 4 records, stated are 3"),
        (EncodedPage(b"\x08\x01\x10\x04\x32\x04what", 4, Encoding.ARROW), "no messages that this version knows"),
        (encode_rows(1, 4, b"what", ((1, 4),)), "a dictionary with indices that this version does not know"),
    ],
    ids=["unknown version", "no version", "nonsense", "another number", "later version", "unknown dictionary"],
)
def test_unreadable_rows_are_refused(client: Client, orders: Publisher, page: EncodedPage, why: str) -> None:
    with pytest.raises(InvalidPage, match=why):
        publish(orders, page)

    publish(orders, arrow.page(BATCH, 1))
    with pytest.raises(InvalidPage):
        orders.flush(20)


ANOTHER_SCHEMA = arrow.page(pa.record_batch({"x": pa.array([1, 2, 3, 4])}), 1)
BAD_TEXT = pa.record_batch({"id": BATCH.column("id"), "name": unchecked_strings([b"a", None, b"M\xfcller", b"d"])})
"""As ``BATCH``, with a name that is not UTF-8: of a writer that does not check what it sends."""


def test_rows_that_cannot_be_decoded_stop_no_reader(client: Client, orders: Publisher) -> None:
    bad_text = encode_rows(1, 4, encode_batches([BAD_TEXT]))
    publish(orders, ANOTHER_SCHEMA, bad_text, arrow.page(BATCH, 1))

    peeked = client.peek("orders", max_records=20)
    pulled = client.pull("orders", max_records=20)
    replayed = list(client.replay("orders", on_gap="yield"))
    with pytest.raises(InvalidPage, match="offset 6 of partition 0 cannot be decoded: column name: the string is not"):
        list(client.replay("orders", partition=0, start=4))

    assert [(one.offset, one.value.encode()) for one in peeked if one.format != "unreadable"] == [
        *((4, JSON[0]), (5, JSON[1]), (7, JSON[3])),
        *enumerate(JSON, 8),
    ]
    assert [one.offset for one in peeked if one.format == "unreadable"] == [0, 1, 2, 3, 6]
    assert [one.offset for one in pulled if one.unreadable] == [0, 1, 2, 3, 6]
    assert [one.value for one in pulled if not one.unreadable] == [*JSON[:2], JSON[3], *JSON]
    gaps = [(one.first_offset, one.last_offset, one.reason) for one in replayed if isinstance(one, Gap)]
    assert gaps == [(0, 3, DropReason.UNREADABLE), (6, 6, DropReason.UNREADABLE)]
    assert [one.value for one in replayed if not isinstance(one, Gap)] == [*JSON[:2], JSON[3], *JSON]


def test_a_deliverer_makes_dead_letters_of_rows_that_cannot_be_decoded_and_continues(
    client: Client, orders: Publisher, tmp_path: Path
) -> None:
    bad_text = encode_rows(1, 4, encode_batches([BAD_TEXT]))
    publish(orders, bad_text, ANOTHER_SCHEMA, arrow.page(BATCH, 1))
    target = FileTarget(tmp_path / "out.jsonl")
    deliver_all(client, target)

    delivered = [json.loads(line)["offset"] for line in target.path_of(0).read_text().splitlines()]
    assert delivered == [0, 1, 3, 8, 9, 10, 11]
    first, *others = client.dead_letters.list("orders")
    assert (first.origin_offset, first.uncut) == (2, "column name: the string is not UTF-8")
    alone = record_pb2.ArrowPage.FromString(first.record.value)
    assert (alone.schema_version, alone.rows, b"M\xfcller" in alone.messages) == (1, 1, True)
    assert [one.origin_offset for one in others] == [4, 5, 6, 7]
    assert [one.record.value for one in others] == [ANOTHER_SCHEMA.body, b"", b"", b""]
    assert all("cannot be decoded" in one.error for one in (first, *others))
    assert client.dead_letters.redrive("orders") == 0


def test_a_later_dead_letter_of_a_page_has_its_body_when_the_one_that_had_it_was_purged(
    client: Client, orders: Publisher
) -> None:
    page = arrow.page(pa.record_batch({"x": pa.array([1, 2, 3, 4])}), 1)
    publish(orders, page)

    with client.subscriber("orders") as subscriber:
        delivery = next(subscriber)
        for offset in (0, 1):
            delivery.dead_letter("bad", offset=offset, wait=True)
        before = [(each.origin_offset, each.record.value) for each in client.dead_letters.list("orders")]
        purged = client.dead_letters.purge("orders")
        for offset in (2, 3):
            delivery.dead_letter("bad", offset=offset, wait=True)

    after = [(each.origin_offset, each.record.value) for each in client.dead_letters.list("orders")]
    assert (before, purged) == ([(0, page.body), (1, b"")], 2)
    assert after == [(2, page.body), (3, b"")]


def test_the_dead_letter_with_the_body_of_a_page_is_purged_with_the_last_one_of_the_page(
    client: Client, orders: Publisher
) -> None:
    page = arrow.page(pa.record_batch({"x": pa.array([1, 2, 3])}), 1)
    publish(orders, page)

    with client.subscriber("orders") as subscriber:
        delivery = next(subscriber)
        for offset in range(3):
            delivery.dead_letter("bad", offset=offset, wait=True)
    purged = [client.dead_letters.purge("orders", first_offset=0, last_offset=last) for last in (0, 1, 2)]

    assert purged == [0, 1, 2]
    assert list(client.dead_letters.list("orders")) == []


def test_rejected_rows_that_cannot_be_read_are_dead_letters_the_first_with_the_body_of_their_page(
    client: Client, orders: Publisher
) -> None:
    page = arrow.page(pa.record_batch({"x": pa.array([1, 2, 3, 4])}), 1)
    publish(orders, page, arrow.page(BATCH.slice(0, 1), 1))

    with client.subscriber("orders") as subscriber:
        held: dict[int, Delivery] = {}
        while len(held) < 5:
            delivery = subscriber.take(20)
            assert delivery is not None
            held |= {offset: delivery for first, last in delivery.ranges for offset in range(first, last + 1)}
        for offset in (0, 1, 3, 4):
            held[offset].dead_letter("bad", offset=offset, wait=True)

    letters = list(client.dead_letters.list("orders"))
    assert [(each.origin_offset, each.record.value) for each in letters] == [
        *((0, page.body), (1, b""), (3, b"")),
        (4, JSON[0]),
    ]
    assert all(each.uncut.startswith("the page at offset 0 ") for each in letters[:3])
    assert letters[3].uncut == ""
    assert client.dead_letters.redrive("orders") == 1
    [stats] = client.sinks.stats("orders").subscriptions
    assert stats.partitions[0].state is not DeliveryState.PAUSED


def test_records_and_rows_are_side_by_side_in_one_sink(client: Client, orders: Publisher) -> None:
    orders.send(b"plain", partition=0)
    orders.flush(20)
    publish(orders, arrow.page(BATCH.slice(0, 1), 1))
    orders.send(b"plain too", partition=0)
    orders.flush(20)

    found = [record.value for record in client.replay("orders", partition=0) if hasattr(record, "value")]

    assert found == [b"plain", JSON[0], b"plain too"]


class ArrowTarget:
    """Takes rows as Arrow batches."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, pa.RecordBatch]] = []

    def open(self, context: TargetContext) -> BatchLimits:
        return BatchLimits(records_max=3)

    def send(self, batch: Batch) -> Outcome:
        self.taken += [(page.first_offset, arrow.readable_rows(page)[0]) for page in batch.pages]
        return Delivered()

    def close(self) -> None:
        pass


def test_a_target_takes_rows_as_arrow_batches_within_its_limits(client: Client, orders: Publisher) -> None:
    publish(orders, arrow.page(BATCH, 1, compression="zstd"), arrow.page(BATCH.slice(0, 1), 1))
    target = ArrowTarget()
    deliver_all(client, target)

    parts = {0: BATCH.slice(0, 3), 3: BATCH.slice(3, 1), 4: BATCH.slice(0, 1)}
    assert dict(target.taken) == parts


def test_a_target_takes_the_other_rows_of_a_page_with_one_that_cannot_be_decoded(
    client: Client, orders: Publisher
) -> None:
    publish(orders, encode_rows(1, 4, encode_batches([BAD_TEXT])))
    target = ArrowTarget()

    deliver_all(client, target)

    assert [(first, rows["id"].to_pylist()) for first, rows in target.taken] == [(0, [1, 2]), (3, [4])]
    assert [one.origin_offset for one in client.dead_letters.list("orders")] == [2]


def test_a_deliverer_sends_records_and_rows_alike(client: Client, orders: Publisher, tmp_path: Path) -> None:
    publish(orders, arrow.page(BATCH, 1, compression="zstd", dictionary=["name"]))
    orders.send(b'{"id": 5}', partition=0)
    orders.flush(20)
    target = FileTarget(tmp_path / "out.jsonl")
    deliver_all(client, target)

    lines = [json.loads(line) for line in target.path_of(0).read_text().splitlines()]
    assert [(line["offset"], line["value"]) for line in lines] == [
        (0, {"id": 1, "name": "a"}),
        (1, {"id": 2, "name": None}),
        (2, {"id": 3, "name": "c"}),
        (3, {"id": 4, "name": "d"}),
        (4, {"id": 5}),
    ]


@pytest.mark.parametrize("command", [["peek", "orders", "-n", "2"], ["replay", "orders", "-p", "0", "--end", "2"]])
def test_commands_show_rows_as_json(
    broker: BrokerServer, orders: Publisher, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    publish(orders, arrow.page(BATCH, 1))

    assert run([*command, "--endpoint", broker.endpoint, "-o", "json"]) == ExitCode.OK

    out = capsys.readouterr().out
    shown: list[Any] = json.loads(out) if out.startswith("[") else [json.loads(line) for line in out.splitlines()]
    assert [record["value"] for record in shown] == [text.decode() for text in JSON[:2]]
