"""Several TCP proxies that are cut as one: all ways of a client to a system of several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from tests.support.proxies.tcp import TcpProxy


class ProxyGroup:
    """Faults of a ``TcpProxy``, of all proxies of a group."""

    def __init__(self, proxies: Sequence[TcpProxy]) -> None:
        self.proxies: Final = tuple(proxies)

    def reset(self) -> int:
        """See ``TcpProxy.reset``."""
        return sum(proxy.reset() for proxy in self.proxies)

    def lose_answers(self) -> None:
        """See ``TcpProxy.lose_answers``."""
        for proxy in self.proxies:
            proxy.lose_answers()

    def hold(self) -> None:
        """See ``TcpProxy.hold``."""
        for proxy in self.proxies:
            proxy.hold()

    def refuse(self) -> None:
        """See ``TcpProxy.refuse``."""
        for proxy in self.proxies:
            proxy.refuse()

    def release(self) -> None:
        """See ``TcpProxy.release``."""
        for proxy in self.proxies:
            proxy.release()

    def close(self) -> None:
        """See ``TcpProxy.close``."""
        for proxy in self.proxies:
            proxy.close()


Way: TypeAlias = TcpProxy | ProxyGroup
"""Proxies between a client and a system, however many nodes that has."""
