"""Turns refusals into statuses, so that no servicer has a `try`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from holdfast.broker.core.errors import BrokerError
from holdfast.broker.rpc import page_requests
from holdfast.broker.rpc.frames import serialized
from holdfast.broker.rpc.status import code_of, status_of

_log: Final = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Any]

_READ: Final[dict[str, Callable[[bytes], Any]]] = {"/holdfast.v1.BufferService/Publish": page_requests.read}
"""Methods whose requests are not read by protobuf alone."""


class StatusInterceptor(grpc.aio.ServerInterceptor):
    """Ends a call that raised a ``BrokerError`` with its status and details."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap the handlers of our own services, which may answer in bytes; health and reflection stay as they are."""
        handler: Any = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith("/holdfast."):
            return handler
        read = _READ.get(handler_call_details.method, handler.request_deserializer)
        if handler.unary_unary is not None:
            return _remade(_translated(handler.unary_unary), "unary_unary", read)
        if handler.stream_stream is not None:
            return _remade(_translated(handler.stream_stream), "stream_stream", read)
        if handler.unary_stream is not None:
            return _remade(_translated_steps(handler.unary_stream), "unary_stream", read)
        return handler


def _remade(behaviour: Handler, kind: str, read: Callable[[bytes], Any]) -> Any:
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(behaviour, read, serialized)


def _translated(behaviour: Handler) -> Handler:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(request, context)
        except BrokerError as error:
            await abort(context, error)
        except grpc.aio.InternalError as error:
            raise _gone(error) from error

    return call


def _translated_steps(behaviour: Handler) -> Handler:
    async def call(request: Any, context: Any) -> None:
        try:
            async for step in behaviour(request, context):
                await context.write(step)
        except BrokerError as error:
            await abort(context, error)
        except grpc.aio.InternalError as error:
            raise _gone(error) from error

    return call


def _gone(error: grpc.aio.InternalError) -> asyncio.CancelledError:
    """What a failed write or status is: whoever called is gone, and its cancellation is still on its way."""
    _log.info("a call ended while it was written to cause=%s", error)
    return asyncio.CancelledError()


async def abort(context: Any, error: BrokerError) -> None:
    """End a call with the status of a refusal. Never returns."""
    details = ("grpc-status-details-bin", status_of(error).SerializeToString())
    try:
        await context.abort(code_of(error), str(error), (details,))
    except grpc.aio.InternalError as failure:
        raise _gone(failure) from failure
