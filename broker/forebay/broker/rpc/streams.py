"""Streams of calls, entered into the broker's list with the peer and the principal of the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forebay.broker.core.access.principal import anonymous
from forebay.broker.rpc.access.open_call import current_call
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.streams import OpenStream, StreamKind


@contextmanager
def open_stream(broker: Broker, kind: StreamKind, context: Any, *, sink: str = "") -> Iterator[OpenStream]:
    """List a stream while its call lasts. Raises ``DRAINING``, ``STORE_FENCED``, ``TOO_MANY_STREAMS``."""
    broker.check_serving()
    call = current_call()
    principal = anonymous() if call is None else call.principal
    with broker.streams.opened(kind, context.peer(), principal.name, sink=sink) as stream:
        yield stream
