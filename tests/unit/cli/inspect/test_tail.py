"""Whatever ends the reader of a partition ends `forebay tail`, which waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from forebay.cli.main import run
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
def test_an_error_that_nobody_expected_ends_it_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with WireFake(GetSinkStats=stats, Replay=replay) as fake:
        code = run(["tail", "s", "--endpoint", fake.address])

    assert code == 1
    assert "CLIENT_FAULT" in capsys.readouterr().err
