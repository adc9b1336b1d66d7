"""List of connections: those of the system, each with the open streams of its peer."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.convert import duration, timestamp
from forebay.broker.rpc.sinks.convert import reader_mode
from forebay.broker.rpc.transport import peers
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.connections import Connections, ConnectionState
from forebay.broker.runtime.resources.streams import OpenStream
from forebay.broker.runtime.sink.statistics import replay_cursor
from forebay.errors.reasons import Reason
from forebay.v1 import admin_service_pb2 as pb

PAGE_SIZE: Final = (100, 1_000)
"""Connections of an answer: by default, and at most."""

SECOND_US: Final = 1_000_000


def list_connections(
    broker: Broker, connections: Connections, request: pb.ListConnectionsRequest
) -> pb.ListConnectionsResponse:
    """Return one page of the list. Raises ``INVALID_PAGE_TOKEN``."""
    if request.page_token and not request.page_token.isascii():
        raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token")
    default, most = PAGE_SIZE
    size = min(request.page_size or default, most)
    found = {_text(one.host, one.port): one for one in connections}
    streams = _streams_by_peer(broker)
    rest = sorted(peer for peer in found.keys() | streams.keys() if peer > request.page_token)
    chosen = rest[:size]
    return pb.ListConnectionsResponse(
        connections=[_connection(broker, peer, found.get(peer), streams.get(peer, [])) for peer in chosen],
        next_page_token=chosen[-1] if len(rest) > size else "",
    )


def _streams_by_peer(broker: Broker) -> dict[str, list[OpenStream]]:
    found: dict[str, list[OpenStream]] = {}
    for stream in broker.streams:
        address = peers.address(stream.peer)
        found.setdefault(stream.peer if address is None else _text(*address), []).append(stream)
    return found


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connection(broker: Broker, peer: str, state: ConnectionState | None, streams: list[OpenStream]) -> pb.Connection:
    message = pb.Connection(
        peer=peer, streams=[_stream(broker, stream) for stream in sorted(streams, key=lambda one: one.opened_at_us)]
    )
    if state is None:
        return message
    now, wall_us = broker.clock.monotonic(), broker.clock.wall_us()
    message.opened_at.CopyFrom(timestamp(wall_us - round((now - state.opened_at) * SECOND_US)))
    used_at = now if state.calls else state.used_at
    if used_at is not None:
        message.used_at.CopyFrom(timestamp(wall_us - round((now - used_at) * SECOND_US)))
    message.open_calls = state.open
    message.received_bytes, message.sent_bytes = state.traffic.received, state.traffic.sent
    message.unread_bytes = state.unread
    return message


def _stream(broker: Broker, stream: OpenStream) -> pb.ConnectedStream:
    credit, reader = stream.credit(), stream.reader
    message = pb.ConnectedStream(
        method=stream.kind,
        sink=stream.sink,
        subscription=stream.subscription,
        client_id=stream.client_id,
        principal=stream.principal,
        opened_at=timestamp(stream.opened_at_us),
        records=stream.records,
        bytes=stream.size,
        records_per_s=stream.records_per_s,
        in_flight=credit.in_flight,
        credit_records=credit.records,
        held_bytes=stream.memory.held,
        program=stream.program,
    )
    if reader is not None:
        message.partition, message.position = reader.partition, reader.position or 0
        message.mode, message.mode_switches = reader_mode(reader.realtime), reader.switches
        message.mode_time.CopyFrom(duration(round(reader.mode_s * SECOND_US)))
        buffer = broker.sinks.get(stream.sink)
        if buffer is not None and reader.position is not None and reader.partition < len(buffer.logs):
            log = buffer.logs[reader.partition]
            message.lag_records = max(0, replay_cursor(log, reader.position).pending(log.tail.next_offset))
    return message
