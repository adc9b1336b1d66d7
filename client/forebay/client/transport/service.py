"""Unary calls of one gRPC service: stub, retry rule, pagination and repeated deletes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import grpc

from forebay.client.errors import ForebayError, NotOwner
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels, Unary
from forebay.client.transport.io import Metadata, Responses
from forebay.client.transport.retry_rules import is_unexecuted
from forebay.client.transport.status import from_call


class Service:
    """Calls of one service, by the name of the rpc. Thread-safe."""

    def __init__(self, channels: Channels, kind: type[Any]) -> None:
        """``kind`` is the generated stub of the service."""
        self._channels = channels
        self._kind = kind
        self.unary = Unary(channels)

    def server_of(self, sink: str) -> dict[str, str | int]:
        """Return the address of the broker that holds ``sink``, as attributes of spans and metrics."""
        return self._channels.server_of(sink)

    def _method(self, rpc: str, endpoint: str) -> Any:
        """Return the method of the stub at ``endpoint``."""
        return getattr(self._channels.stub_at(self._kind, endpoint), rpc)

    async def call(
        self,
        rpc: str,
        sink: str,
        request: Any,
        *,
        endpoint: str | None = None,
        creates_in: str | None = None,
        extra_s: float = 0.0,
        policy: RetryPolicy | None = None,
        timeout_s: float | None = None,
        metadata: Metadata = (),
        is_idempotent: bool = False,
    ) -> Any:
        """Return the response to ``request`` of the broker that holds ``sink``, or of ``endpoint``.

        ``timeout_s`` bounds the time limit of an attempt; the other options are those of ``Unary.call``.
        """

        async def attempt(chosen: str, limit_s: float) -> Any:
            if timeout_s is not None:
                limit_s = min(limit_s, timeout_s)
            return await self._channels.io.call(self._method(rpc, chosen), request, limit_s, metadata)

        response, _ = await self.unary.call(
            rpc,
            attempt,
            sink=sink,
            endpoint=endpoint,
            creates_in=creates_in,
            extra_s=extra_s,
            policy=policy,
            is_idempotent=is_idempotent,
        )
        return response

    async def pages(
        self, rpc: str, sink: str, request: Any, *, endpoint: str | None = None, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """Yield the responses of a list call, from the first to the last, which has no ``next_page_token``."""
        while True:
            response = await self.call(rpc, sink, request, endpoint=endpoint, **options)
            yield response
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    async def responses(
        self, rpc: str, sink: str, request: Any, *, endpoint: str | None = None
    ) -> AsyncGenerator[Any, None]:
        """Yield the responses of a stream, without a retry; only its start has a time limit."""
        hops = 0
        while True:
            chosen = endpoint or await self._channels.locate(sink)
            method = self._method(rpc, chosen)
            call: Responses = self._channels.io.read(method, request, opening_s=self._channels.opening_s)
            try:
                async for response in call:
                    yield response
                return
            except grpc.RpcError as failure:
                error = await self._channels.ended(failure, chosen)
                if endpoint is not None:
                    self._channels.note_failure(endpoint, error)
                    raise error from failure
                if not self._channels.misplaced(sink, chosen, error, hops):
                    raise error from failure
                hops += 1
            finally:
                call.cancel()

    async def delete(self, rpc: str, sink: str, request: Any, gone: tuple[type[ForebayError], ...]) -> bool:
        """Call a delete; return False if an earlier attempt deleted the object and its answer was lost.

        An error of ``gone`` is raised if no attempt can have deleted the object: it did not exist. A broker that is
        named by its address answers ``NOT_OWNER`` in place of it, where the name belongs to another shard.
        """
        may_be_done = False

        async def attempt(endpoint: str, timeout_s: float) -> Any:
            nonlocal may_be_done
            try:
                return await self._channels.io.call(self._method(rpc, endpoint), request, timeout_s)
            except grpc.RpcError as failure:
                error = from_call(failure)
                may_be_done = may_be_done or not (isinstance(error, gone) or is_unexecuted(error))
                raise

        try:
            await self.unary.call(rpc, attempt, sink=sink)
        except gone:
            if not may_be_done:
                raise
            return False
        except NotOwner:
            if not may_be_done or self._channels.fleet is not None:  # brokers of a fleet that contradict each other
                raise
            return False
        return True
