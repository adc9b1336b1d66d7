"""A broker that is installed without pyarrow: it keeps and delivers rows, and says what decoding them needs."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from forebay.client import Client, DeliveryState, FailedPrecondition, Gap, Record, arrow
from tests.support.calls.eventually import stats_when
from tests.support.processes.broker import BrokerProcess, free_port, serve_command

pytestmark = pytest.mark.slow

BATCH = pa.record_batch({"id": pa.array([1, 2])})
JSON = [b'{"id":1}', b'{"id":2}']


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., BrokerProcess]:
    """Start a broker on the directory of the test, with or without pyarrow."""
    (tmp_path / "without").mkdir()
    missing = 'raise ModuleNotFoundError("No module named \'pyarrow\'", name="pyarrow")\n'
    (tmp_path / "without" / "pyarrow.py").write_text(missing, encoding="ascii")

    def started(*, pyarrow: bool, **settings: str) -> BrokerProcess:
        path = {} if pyarrow else {"PYTHONPATH": str(tmp_path / "without")}
        listen = f"127.0.0.1:{free_port()}"
        broker = serve_command(tmp_path / "data", listen, environment={**path, **settings})
        broker.ready()
        broker.endpoint = listen  # its first line may be that of the console
        return broker

    return started


@pytest.fixture
def broker(start: Callable[..., BrokerProcess]) -> Iterator[BrokerProcess]:
    with start(pyarrow=False) as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    """A client of that broker, with two rows in the sink `orders`."""
    with Client(broker.endpoint) as client:
        publish(client)
        yield client


def publish(client: Client) -> None:
    client.sinks.create("orders")
    client.schemas.register("orders", arrow.encode_schema(BATCH.schema), previous=0)
    with client.publisher("orders") as publisher:
        publisher.send_page(arrow.page(BATCH, 1), partition=0).result(20)


def test_rows_are_delivered_and_replayed(client: Client) -> None:
    with client.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        records = list(delivery)
    replayed = [
        record for record in client.replay("orders", partition=0, start=0, end=2) if not isinstance(record, Gap)
    ]

    assert [record.value for record in records] == JSON
    assert [record.value for record in replayed] == JSON


def test_a_peek_at_single_rows_names_what_to_install(client: Client) -> None:
    for call in (client.peek, client.pull):
        with pytest.raises(FailedPrecondition, match=r"pip install 'forebay\[arrow\]'") as refused:
            call("orders", max_records=1)
        assert refused.value.reason == "ROWS_NOT_DECODABLE"
    account = client.sinks.stats("orders").subscriptions[0].partitions[0]
    assert (account.in_flight, account.pending) == (0, 2)


def test_records_beside_the_rows_are_shown_all_the_same(client: Client) -> None:
    client.publish("orders", [Record(b"plain")])

    assert [record.value for record in client.peek("orders", offset=2, max_records=1)] == ["plain"]


def test_a_rejected_row_pauses_the_sink_and_becomes_a_dead_letter_with_pyarrow(
    client: Client, broker: BrokerProcess, start: Callable[..., BrokerProcess]
) -> None:
    with client.subscriber("orders") as subscriber:
        delivery = subscriber.take(20)
        assert delivery is not None
        delivery.dead_letter("no such customer", offset=0)
        paused = stats_when(client, "orders", lambda found: found.subscriptions[0].partitions[0].state == "PAUSED")
    account = paused.subscriptions[0].partitions[0]
    assert account.state is DeliveryState.PAUSED
    assert account.reason.startswith("ROWS_NOT_DECODABLE: ")
    assert (account.pending, account.dead_lettered) == (2, 0)
    broker.terminate()

    with start(pyarrow=True) as again, Client(again.endpoint) as repaired:
        repaired.sinks.resume("orders")
        with repaired.subscriber("orders") as subscriber:
            delivery = subscriber.take(20)
            assert delivery is not None
            delivery.dead_letter("no such customer", offset=0, wait=True)
        [letter] = repaired.dead_letters.list("orders")

    assert (letter.record.value, letter.uncut) == (JSON[0], "")


def test_the_console_says_of_a_schema_what_reading_it_needs(start: Callable[..., BrokerProcess]) -> None:
    console = f"127.0.0.1:{free_port()}"
    with start(pyarrow=False, FOREBAY_CONSOLE_LISTEN=console) as broker, Client(broker.endpoint) as client:
        publish(client)
        page = urllib.request.urlopen(f"http://{console}/sinks/orders/schemas", timeout=10).read().decode()

    assert "cannot be read: RowsNotDecodable: " in page
    assert "forebay[arrow]" in page
