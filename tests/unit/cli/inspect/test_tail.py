"""`forebay tail` ends at the end of the partitions or follows them, and whatever ends a reader ends it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli.main import run
from forebay.client import Client, Record
from forebay.client.publish.pages import encode_columns
from forebay.v1 import buffer_service_pb2, record_pb2, sink_service_pb2
from tests.support.calls.wire_fake import WireFake


def stats(request: Any, context: grpc.ServicerContext) -> sink_service_pb2.GetSinkStatsResponse:
    """Answer for a sink of one record."""
    part = sink_service_pb2.PartitionStats(partition=0, earliest_offset=0, next_offset=1)
    return sink_service_pb2.GetSinkStatsResponse(stats=sink_service_pb2.SinkStats(name="s", partitions=[part]))


def replay(request: Any, context: grpc.ServicerContext) -> Iterator[buffer_service_pb2.ReplayResponse]:
    """Answer with a record that was accepted at a time that no calendar has."""
    page = encode_columns([b"a"])
    part = record_pb2.PagePart(first_offset=0)
    part.accepted_at.seconds = 10**15
    stored = record_pb2.StoredPage(
        base_offset=0,
        record_count=1,
        encoding=record_pb2.ENCODING_RECORDS,
        crc32=page.crc32,
        body=page.body,
        parts=[part],
    )
    yield buffer_service_pb2.ReplayResponse(opened=buffer_service_pb2.ReplayOpened(incarnation="i", start_offset=0))
    yield buffer_service_pb2.ReplayResponse(pages=buffer_service_pb2.ReplayPages(pages=[stored]))


@pytest.mark.timeout(60)
def test_an_unexpected_error_ends_it_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with WireFake(GetSinkStats=stats, Replay=replay) as fake:
        code = run(["tail", "s", "--endpoint", fake.address])

    assert code == 1
    assert "CLIENT_FAULT" in capsys.readouterr().err


@pytest.fixture
def orders() -> Iterator[BrokerServer]:
    """Broker with the sink ``orders``: three records in each of two partitions."""
    with BrokerServer.in_memory() as broker:
        with Client(broker.endpoint) as client:
            client.sinks.create("orders", partitions=2)
            for partition in (0, 1):
                client.publish("orders", [Record(b"%d" % n) for n in range(3)], partition=partition)
        yield broker


def test_without_follow_it_shows_the_newest_records_and_ends(
    orders: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tail", "orders", "-n", "2", "-e", orders.endpoint]) == 0

    shown = sorted(line.split()[0] for line in capsys.readouterr().out.splitlines())
    assert shown == ["0:1", "0:2", "1:1", "1:2"]


def test_an_empty_partition_ends_at_once(orders: BrokerServer, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(orders.endpoint) as client:
        client.sinks.create("empty")

    assert run(["tail", "empty", "-e", orders.endpoint]) == 0
    assert capsys.readouterr().out == ""


def test_with_follow_a_record_that_is_published_later_is_shown(orders: BrokerServer) -> None:
    command = [sys.executable, "-m", "forebay.cli", "tail", "orders", "-f", "-n", "1", "-p", "0", "-e", orders.endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, Client(orders.endpoint) as client:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("0:2 ")

        client.publish("orders", [Record(b"later")], partition=0)

        assert process.stdout.readline().startswith("0:3 ")
        process.terminate()
