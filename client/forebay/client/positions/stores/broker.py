"""Store in the broker of the sink: ``broker:``, the default.

A position is as durable as the broker's disk, and needs no other system. It outlives the sink, not the broker's data
directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forebay.client.errors import (
    AccessDenied,
    BrokerUnavailable,
    DeadlineExceeded,
    PositionConflict,
    PositionStoreError,
    PositionStoreUnavailable,
    Superseded,
)
from forebay.client.positions.position import PositionKey
from forebay.client.positions.store import StoreContext, Versioned
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels
from forebay.client.transport.service import Service
from forebay.v1 import position_service_pb2 as pb
from forebay.v1.position_service_pb2_grpc import PositionServiceStub

PAGE_SIZE: Final = 1000
ONCE: Final = RetryPolicy(tries_max=1)


class BrokerPositions:
    """Documents in the brokers of a client, each in the broker of its sink."""

    def __init__(self, channels: Channels, rw_timeout_s: float) -> None:
        self._channels = channels
        self._service = Service(channels, PositionServiceStub)
        self._rw_timeout_s = rw_timeout_s

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        response = self._call("ReadPosition", _sink(key), pb.ReadPositionRequest(key=_message(key)))
        if not response.HasField("position"):
            return None
        return Versioned(response.position.document, response.position.version)

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        request = pb.WritePositionRequest(key=_message(key), document=document, expected_version=expected or "")
        return str(self._call("WritePosition", _sink(key), request).version)

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        self._call("DeletePosition", _sink(key), pb.DeletePositionRequest(key=_message(key)))

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        found = [key for endpoint in self._channels.endpoints for key in self._listed(prefix, endpoint)]
        return iter(sorted(found))

    def _listed(self, prefix: str, endpoint: str) -> Iterator[str]:
        request = pb.ListPositionsRequest(prefix=prefix, page_size=PAGE_SIZE)
        while True:
            response = self._call("ListPositions", "", request, endpoint=endpoint)
            for key in (one.key for one in response.positions):
                yield str(PositionKey(key.namespace, key.consumer, key.sink, key.partition))
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def close(self) -> None:
        """See ``PositionStore``; the connections are the client's."""

    def _call(self, rpc: str, sink: str, request: Any, *, endpoint: str | None = None) -> Any:
        """Return the response within the time limit, without a retry: the caller of a store retries."""

        def attempt(timeout_s: float) -> Any:
            stub = (
                self._service.stub(sink) if endpoint is None else self._channels.stub_at(PositionServiceStub, endpoint)
            )
            return getattr(stub, rpc)(request, timeout=min(timeout_s, self._rw_timeout_s))

        try:
            return self._service.unary.call(rpc, attempt, policy=ONCE)[0]
        except Superseded as error:
            raise PositionConflict(str(error), facts=error.facts) from error
        except AccessDenied as error:
            raise PositionStoreError(str(error), reason=error.reason, facts=error.facts) from error
        except (BrokerUnavailable, DeadlineExceeded) as error:
            raise PositionStoreUnavailable(str(error), facts=error.facts, retry_after_s=error.retry_after_s) from error


def _sink(key: str) -> str:
    return PositionKey.parse(key).sink


def _message(key: str) -> pb.PositionKey:
    found = PositionKey.parse(key)
    return pb.PositionKey(
        namespace=found.namespace, consumer=found.consumer, sink=found.sink, partition=found.partition
    )


def open_store(context: StoreContext) -> BrokerPositions:
    """Return the store of the client's brokers."""
    return BrokerPositions(context.channels, context.rw_timeout_s)
