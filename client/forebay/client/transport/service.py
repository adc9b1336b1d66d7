"""Unary calls of one gRPC service: stub, retry rule, pagination and repeated deletes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forebay.client.errors import ForebayError
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels, Unary


class Service:
    """Calls of one service, by the name of the rpc. Thread-safe."""

    def __init__(self, channels: Channels, kind: type[Any]) -> None:
        """``kind`` is the generated stub of the service."""
        self._channels = channels
        self._kind = kind
        self.unary = Unary(channels)

    def stub(self, sink: str) -> Any:
        """Return the stub at the broker that holds ``sink``."""
        return self._channels.stub(self._kind, sink)

    def call(
        self,
        rpc: str,
        sink: str,
        request: Any,
        *,
        endpoint: str | None = None,
        extra_s: float = 0.0,
        policy: RetryPolicy | None = None,
    ) -> Any:
        """Return the response to ``request`` of the broker that holds ``sink``, or of ``endpoint``."""

        def attempt(timeout_s: float) -> Any:
            stub = self.stub(sink) if endpoint is None else self._channels.stub_at(self._kind, endpoint)
            return getattr(stub, rpc)(request, timeout=timeout_s)

        return self.unary.call(rpc, attempt, extra_s=extra_s, policy=policy)[0]

    def pages(self, rpc: str, sink: str, request: Any, *, endpoint: str | None = None) -> Iterator[Any]:
        """Yield the responses of a list call, from the first to the last, which has no ``next_page_token``."""
        while True:
            response = self.call(rpc, sink, request, endpoint=endpoint)
            yield response
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def delete(self, rpc: str, sink: str, request: Any, gone: tuple[type[ForebayError], ...]) -> bool:
        """Call a delete; return False if an earlier attempt deleted the object and its answer was lost.

        An error of ``gone`` at the first attempt is raised, because the object did not exist.
        """
        attempts = 0

        def attempt(timeout_s: float) -> Any:
            nonlocal attempts
            attempts += 1
            return getattr(self.stub(sink), rpc)(request, timeout=timeout_s)

        try:
            self.unary.call(rpc, attempt)
        except gone:
            if attempts == 1:
                raise
            return False
        return True
