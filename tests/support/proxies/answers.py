"""A relay between a client and a broker that loses the first answer to one rpc, after the broker has done it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc


class AnswerLoser(grpc.GenericRpcHandler):
    """Passes single calls on as they are. Usable from any thread."""

    def __init__(self, endpoint: str, rpc: str, meanwhile: Callable[[], None]) -> None:
        """``meanwhile`` runs when the broker has done ``rpc`` for the first time and no client knows of it."""
        self.target = endpoint
        """The broker. May be changed while a call is under way."""
        self.tries = 0
        """Number of calls of the rpc."""
        self._rpc, self._meanwhile = rpc, meanwhile
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Handle every rpc."""
        method = handler_call_details.method

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            is_meant = method.endswith(f"/{self._rpc}")
            self.tries += is_meant
            with grpc.insecure_channel(self.target) as channel:
                asked: Any = channel.unary_unary(method)
                made = asked.future(request, timeout=20)
                if made.exception() is not None:
                    context.set_trailing_metadata(tuple(made.trailing_metadata() or ()))
                    context.abort(made.code(), made.details() or "")
                answer: bytes = made.result()
            if is_meant and self.tries == 1:
                self._meanwhile()
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            return answer

        return grpc.unary_unary_rpc_method_handler(handle)

    def __enter__(self) -> Self:
        """Listen."""
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._server.stop(0).wait()
