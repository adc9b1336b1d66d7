"""Turns away calls without a token that the broker knows, before anything of them is looked at.

Health is open to everybody: who supervises a broker has no token, and learns no more than whether it serves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from holdfast.broker.core.errors import TokenRefused
from holdfast.broker.core.tokens import TOKEN_BYTES_MAX, TokenHashes
from holdfast.broker.rpc.interceptor import abort

_log: Final = logging.getLogger(__name__)

OPEN: Final = "/grpc.health.v1.Health/"
KEY: Final = "authorization"
SCHEME: Final = "bearer "
TOLD_S: Final = 10.0
"""Refusals are told once in so long, with their number: whoever is turned away tries again."""


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls with a known token through. Used on one loop."""

    def __init__(self, tokens: TokenHashes, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._tokens = tokens
        self._clock = clock
        self._told_at: float | None = None
        self._refused = 0

    def renew(self, tokens: TokenHashes) -> None:
        """Take these tokens from now on. Streams that are open go on."""
        self._tokens = tokens

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Put a refusal in the place of the handler where the token is wrong."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(OPEN):
            return handler
        token = _bearer(handler_call_details.invocation_metadata)
        if token is not None and self._tokens.name_of(token) is not None:
            return handler
        error = TokenRefused("missing" if token is None else "unknown")
        return _in_place_of(handler, self._refusal(handler_call_details.method, error))

    def _refusal(self, method: str, error: TokenRefused) -> Callable[[Any, Any], Any]:
        async def refuse(request: Any, context: Any) -> None:
            self._tell(method, error, context.peer())
            await abort(context, error)

        return refuse

    def _tell(self, method: str, error: TokenRefused, peer: str) -> None:
        self._refused += 1
        now = self._clock()
        if self._told_at is None or now - self._told_at >= TOLD_S:
            _log.warning(
                "calls were refused count=%d token=%s method=%s peer=%s",
                self._refused,
                error.facts["token"],
                method,
                peer,
            )
            self._told_at, self._refused = now, 0


def _bearer(metadata: Any) -> str | None:
    """Return the token that a call brings, None where it brings none."""
    for key, value in metadata or ():
        if key == KEY and isinstance(value, str) and value[: len(SCHEME)].lower() == SCHEME:
            token = value[len(SCHEME) :].strip()
            return token if len(token) <= TOKEN_BYTES_MAX else ""
    return None


def _in_place_of(handler: Any, refuse: Callable[[Any, Any], Any]) -> Any:
    """Return a handler of the same kind that decodes no request."""
    requests = "stream" if handler.request_streaming else "unary"
    responses = "stream" if handler.response_streaming else "unary"
    make = getattr(grpc, f"{requests}_{responses}_rpc_method_handler")
    return make(refuse, None, None)
