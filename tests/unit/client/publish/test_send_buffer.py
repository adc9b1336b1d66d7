"""Send buffer and sender together, without a stream: which records a page has."""

from __future__ import annotations

import pytest

from forebay.client.publish.send_buffer import SendBuffer
from forebay.client.publish.sender import PublishStreamState, Sender
from forebay.client.settings import PublisherSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.operations import blocked
from forebay.v1 import buffer_service_pb2 as pb


@pytest.fixture
def buffer() -> SendBuffer:
    return SendBuffer(PublisherSettings(linger_ms=60_000), Telemetry("s"), lambda: 0.0)


@pytest.fixture
def stream() -> PublishStreamState:
    return PublishStreamState()


@pytest.fixture
def sender(buffer: SendBuffer, stream: PublishStreamState) -> Sender:
    """Return the sender of an open stream."""
    opened = pb.PublishOpened(partitions=1, page_bytes_max=1 << 20, record_bytes_max=1 << 20)
    found = Sender(buffer)
    found.opened(stream, opened, "s", resumed=False)
    return found


def test_records_that_are_added_before_the_sender_runs_share_the_page_of_a_waiting_caller(
    buffer: SendBuffer, sender: Sender, stream: PublishStreamState
) -> None:
    buffer.put(0, b"a", 1).begin_wait()
    buffer.put(0, b"b", 1).begin_wait()

    taken = blocked(sender.take(stream))

    assert taken is not None
    assert (taken[0].values, taken[1]) == ([b"a", b"b"], 0)
