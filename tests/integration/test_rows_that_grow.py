"""Pages of rows that are small on the wire and large as JSON, over the wire."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.client import Client, InvalidPage, arrow

MIB = 1 << 20
SCHEMA = pa.schema([("text", pa.string())])


@pytest.fixture
def orders(client: Client) -> Client:
    """A client of a broker whose sink `orders` holds a page of a few kilobytes with a row of 360 MiB of JSON."""
    client.sinks.create("orders")
    client.schemas.register("orders", arrow.encode_schema(SCHEMA), previous=0)
    batch = pa.record_batch([pa.array(["\x01" * (60 * MIB)])], schema=SCHEMA)
    page = arrow.page(batch, 1, compression="zstd")
    assert len(page.body) < 16 << 10
    with client.publisher("orders") as publisher:
        publisher.send_page(page, partition=0).result(20)
        small = arrow.page(pa.record_batch([pa.array(["next"])], schema=SCHEMA), 1)
        publisher.send_page(small, partition=0).result(20)
    return client


def test_a_look_shows_the_beginning_of_such_a_row_and_the_rows_after_it(orders: Client) -> None:
    first, second = orders.peek("orders")

    assert (first.truncated, len(first.value), first.format) == (True, 4_096, "text")
    assert first.value_bytes > 360 * MIB
    assert (second.truncated, second.value) == (False, '{"text":"next"}')


def test_taking_such_a_row_as_a_record_is_refused_before_it_is_made(orders: Client) -> None:
    with pytest.raises(InvalidPage, match="bytes of JSON: read the page with Deliver or Replay") as refused:
        orders.pull("orders")

    assert refused.value.facts["base_offset"] == "0"


def test_a_dead_letter_of_such_a_row_is_as_small_as_its_page_and_can_be_listed(orders: Client) -> None:
    with orders.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        delivery.dead_letter("no", offset=0, wait=True)

    [letter] = list(orders.dead_letters.list("orders"))

    assert (letter.origin_offset, letter.error) == (0, "no")
    assert "bytes of JSON" in letter.uncut
    assert len(letter.record.value) < 16 << 10
