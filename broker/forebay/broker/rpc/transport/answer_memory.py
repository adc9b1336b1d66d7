"""Memory of a single answer, counted from the first page read for it until its peer has read it.

A unary call ends for its handler when the answer is passed to gRPC; the bytes stay until flow control releases them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebay.broker.rpc.transport import peers
from forebay.broker.runtime.resources.connections import Address
from forebay.broker.runtime.resources.stream_memory import COPIES, Share, StreamMemory

HangUp = Callable[[Address], None]
"""Function that closes a connection whose peer reads nothing."""


class AnswerMemory:
    """Memory of the answers of a broker's unary calls."""

    def __init__(self, memory: StreamMemory, hang_up: HangUp = lambda address: None) -> None:
        self._memory = memory
        self._hang_up = hang_up

    def of(self, context: Any, wake: Callable[[], None] = lambda: None) -> Share:
        """Return the memory of one call; released when its peer has read the answer, or is gone.

        A peer that reads nothing while others wait for memory loses its connection: nothing else frees the answer.
        """
        address = peers.address(context.peer())

        def shed() -> None:
            if address is not None:
                self._hang_up(address)

        share = self._memory.share(wake, shed)
        context.add_done_callback(lambda _: share.close())
        return share


def becomes(share: Share, size: int) -> None:
    """Count an answer of ``size`` bytes, in place of the pages read for it.

    It is held as a message and as its copy on output.
    """
    more = size * COPIES - share.held
    if more > 0:
        share.acquire(more)
    else:
        share.release(-more)
