"""Requests that never end, beside an open call: their memory is bounded, and freed on disconnect."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forebay.client import Client, Record
from tests.fault.mass import resident_mib
from tests.support.calls.half_requests import send_halves
from tests.support.processes.broker import serve_command

BOUND_MIB = 64
HELD_MAX_MIB = 1024
"""Memory above its base that a broker may hold under a flood: the bound, and the bytes that arrive at the speed of the
loopback interface until ended calls have returned theirs."""
SENT_MIB = 2048


@pytest.mark.parametrize("method", ["PublishBatch", "Deliver"], ids=["unary", "stream"])
def test_halves_of_requests_beside_an_open_call_are_bounded_for_all_connections_together(
    method: str, tmp_path: Path
) -> None:
    environment = {"FOREBAY_UNREAD_BYTES_MAX": str(BOUND_MIB << 20)}
    with serve_command(tmp_path / "data", environment=environment) as broker, Client(broker.ready()) as client:
        client.sinks.create("orders")
        base = resident_mib(broker.pid)
        peaks = [base]
        sent = send_halves(
            broker.endpoint,
            "orders",
            f"/forebay.v1.BufferService/{method}",
            connections=16,
            calls=4,
            bytes_max=SENT_MIB << 20,
            seconds=60.0,
            look=lambda: peaks.append(resident_mib(broker.pid)),
        )
        client.publish("orders", [Record(b"still served")])
        until = time.monotonic() + 60.0
        while (left := resident_mib(broker.pid) - base) > BOUND_MIB and time.monotonic() < until:
            time.sleep(0.25)

    assert sent >= SENT_MIB << 20
    assert max(peaks) - base < HELD_MAX_MIB
    assert left <= BOUND_MIB
