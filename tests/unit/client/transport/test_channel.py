"""Endpoints, and stubs that are kept with their channel."""

from __future__ import annotations

import threading

from forebay.client.settings import ClientSettings
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

ENDPOINTS = ("127.0.0.1:1", "127.0.0.1:2")
"""Never connected to."""


def test_endpoints_may_be_an_iterator() -> None:
    channels = Channels(iter(ENDPOINTS), ClientSettings())

    assert channels.endpoints == ENDPOINTS


def test_a_stub_is_made_once_per_service_and_endpoint() -> None:
    channels = Channels(ENDPOINTS, ClientSettings())

    first = channels.stub_at(BufferServiceStub, ENDPOINTS[0])

    assert channels.stub_at(BufferServiceStub, ENDPOINTS[0]) is first
    assert channels.stub_at(BufferServiceStub, ENDPOINTS[1]) is not first
    assert isinstance(channels.stub_at(SinkServiceStub, ENDPOINTS[0]), SinkServiceStub)
    blocked(channels.close())


def test_a_stub_may_be_asked_for_by_many_threads() -> None:
    channels = Channels(ENDPOINTS[:1], ClientSettings())
    found: list[BufferServiceStub] = []
    threads = [
        threading.Thread(target=lambda: found.append(channels.stub_at(BufferServiceStub, ENDPOINTS[0])))
        for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert channels.stub_at(BufferServiceStub, ENDPOINTS[0]) in found
    blocked(channels.close())
