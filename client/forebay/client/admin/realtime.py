"""Switch of the memory that serves readers at the head."""

from __future__ import annotations

from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values.brokers import RealtimeState
from forebay.client.values.convert import value
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub


class RealtimeCalls:
    """Realtime switches of the brokers of a client.

    The switch of a sink is its setting ``realtime``; that of a broker is ``Client.info().realtime``.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, AdminServiceStub)

    @operation
    async def set(
        self, enabled: bool | None, *, sink: str = "", incarnation: str = "", endpoint: str | None = None
    ) -> RealtimeState:
        """Switch it on or off for a sink, or without ``sink`` for one whole broker, durably.

        None returns a sink to its default, and a broker to its setting. Without ``endpoint`` the broker is that of the
        sink, or else the first one. Raises ``SinkNotFound``, ``SinkReplaced``.
        """
        if sink:
            incarnation = incarnation or await self._service.unary.incarnation(sink)
        request = pb.SetRealtimeRequest(sink=sink, incarnation=incarnation)
        if enabled is not None:
            request.enabled = enabled
        chosen = endpoint or (None if sink else (await self._channels.brokers())[0])
        return value(RealtimeState, await self._service.call("SetRealtime", sink, request, endpoint=chosen))


class Realtime(RealtimeCalls, Blocking):
    """Realtime switches of the brokers of a client. Thread-safe."""
