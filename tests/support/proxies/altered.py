"""A relay that alters what a broker answers: a broker with one defect, for tests of what has to notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import grpc

Alter = Callable[[str, bytes], bytes]
"""Returns the response to send instead of one of a method, named as in the head of a request."""

DETAILS: Final = "grpc-status-details-bin"


class AlteredBroker(grpc.GenericRpcHandler):
    """Passes all calls on to a broker, and alters responses and statuses on their way back."""

    def __init__(
        self,
        endpoint: str,
        response: Alter = lambda method, message: message,
        details: Callable[[bytes], bytes] = lambda status: status,
    ) -> None:
        """``details`` alters the ``google.rpc.Status`` of a failed call; empty bytes leave it out."""
        self._response, self._details = response, details
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.max_send_message_length", -1)])
        self._server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self.endpoint: Final = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Handle every rpc as a stream in both directions, as which a unary call is the same on the wire."""
        method = handler_call_details.method

        def handle(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            asked: Any = self._channel.stream_stream(method)
            call = asked(requests)
            context.add_callback(call.cancel)
            try:
                for message in call:
                    yield self._response(method, message)
            except grpc.RpcError:
                trailing = [(key, self._details(value)) for key, value in call.trailing_metadata() if key == DETAILS]
                context.set_trailing_metadata(tuple((key, value) for key, value in trailing if value))
                context.abort(call.code(), call.details() or "")

        return grpc.stream_stream_rpc_method_handler(handle)

    def __enter__(self) -> Self:
        """Listen."""
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.stop(0).wait()
        self._channel.close()


class Parrot(grpc.GenericRpcHandler):
    """A server that answers every call of every service with one message of these bytes."""

    def __init__(self, message: bytes = b"") -> None:
        self._message = message
        self._server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self.endpoint: Final = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Handle every rpc."""

        def handle(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            yield self._message

        return grpc.stream_stream_rpc_method_handler(handle)

    def __enter__(self) -> Self:
        """Listen."""
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.stop(0).wait()
