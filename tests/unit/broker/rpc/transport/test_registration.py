"""Services are served by their names alone."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.rpc.transport.health import BoundedHealth
from forebay.broker.rpc.transport.registration import GenericRegistration


def test_a_service_is_served_without_a_wait_for_each_of_its_methods() -> None:
    async def check() -> tuple[int, grpc.StatusCode]:
        server = grpc.aio.server()
        servicer = BoundedHealth()
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, GenericRegistration(server))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                found = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
                nothing: Any = channel.unary_unary("/grpc.health.v1.Health/Nothing")
                with pytest.raises(grpc.aio.AioRpcError) as unknown:
                    await nothing(b"")
                return found.status, unknown.value.code()
        finally:
            await server.stop(None)

    assert asyncio.run(check()) == (health_pb2.HealthCheckResponse.SERVING, grpc.StatusCode.UNIMPLEMENTED)
