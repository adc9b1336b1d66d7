"""Waiting and calling, as the code of the client needs it: by threads, or on an event loop.

Two parts implement it: ``transport.threads`` blocks in every wait, ``client.aio.loop`` suspends. All other code of the
client is the same for both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from threading import Lock
from typing import Any, Protocol, Self, TypeVar

from forebay.client.errors import BrokerUnavailable, ClientFault
from forebay.client.settings import ClientSettings

T = TypeVar("T")
Metadata = Sequence[tuple[str, str]]


class Condition(Protocol):
    """Condition variable. Its lock must be held for every call."""

    async def wait_for_notify(self, timeout_s: float | None = None) -> None:
        """Release the lock, wait for a notification or the timeout, and acquire the lock again."""

    def notify(self, n: int = 1) -> None:
        """Wake at least one of the waiting ones."""

    def notify_all(self) -> None:
        """Wake all that wait."""


class Responses(Protocol):
    """Responses of a call in progress.

    Iterating raises ``grpc.RpcError``, and ``Closed`` if the channel was closed.
    """

    def __aiter__(self) -> Self:
        """Return the iterator itself."""

    async def __anext__(self) -> Any:
        """Return the next response."""

    def cancel(self) -> None:
        """Cancel the call."""

    async def join(self) -> None:
        """Take no more requests. The responses must have ended."""


class Job(Protocol):
    """Background work."""

    def is_current(self) -> bool:
        """Return True if the caller runs in this work."""

    async def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; return False after the timeout."""

    def cancel(self) -> None:
        """End it at its next wait. A thread is not interrupted: its calls end by their time limits."""


class Io(Protocol):
    """Waits and calls of a client."""

    blocks: bool
    """True if waits block the thread."""

    def check(self) -> None:
        """Raise ``Closed`` if the caller may not use the client here."""

    def open_channel(self, endpoint: str, settings: ClientSettings, options: list[tuple[str, Any]]) -> Any:
        """Return a channel; raises ``CredentialsUnusable``, ``INVALID_SETTING``."""

    async def close_channel(self, channel: Any) -> None:
        """Close a channel and all calls on it."""

    async def call(self, method: Any, request: Any, timeout_s: float, metadata: Metadata = ()) -> Any:
        """Return the response of a unary call.

        Raises ``grpc.RpcError``, and ``ValueError`` on a closed channel.
        """

    def read(
        self, method: Any, request: Any, *, opening_s: float | None = None, timeout_s: float | None = None
    ) -> Responses:
        """Start a call with a stream of responses. Raises ``ValueError`` on a closed channel.

        Iterating raises ``BrokerUnavailable`` if the broker's headers do not arrive within ``opening_s``, as
        ``exchange`` does. The broker sends them at once, even if the first response takes long. ``timeout_s`` limits
        the whole call; one of the two is needed.
        """

    def exchange(self, method: Any, requests: AsyncGenerator[Any, None], opening_s: float) -> Responses:
        """Start a call with streams of requests and responses. Raises ``ValueError`` on a closed channel.

        Iterating raises ``BrokerUnavailable`` if the first response does not arrive within ``opening_s``: a call can be
        lost in gRPC, and then it would wait forever, even after the channel has connected again.
        """

    def spawn(
        self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str, on_fault: Callable[[ClientFault], None]
    ) -> Job:
        """Start work in the background; ``on_fault`` is called if it fails."""

    def condition(self, lock: Lock) -> Condition:
        """Return a condition of a lock."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function that blocks for a short time."""


def unanswered(opening_s: float) -> BrokerUnavailable:
    """Return the error of a call whose start was not answered."""
    return BrokerUnavailable(f"the broker did not answer the start of a stream within {opening_s:g} s")
