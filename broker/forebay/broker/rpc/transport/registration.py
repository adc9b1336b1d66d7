"""Registration of services with gRPC by their names, not by each of their methods.

grpc.aio waits for the next call of every registered method apart, and goes through all these waits at each call: with
the 46 methods of a broker that was about a tenth of the loop's time in a profile of small calls. A service that is
registered generically shares one wait with all others, and its methods are found by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc
import grpc.aio


class GenericRegistration:
    """Server interface of generated code: adds handlers of services, and ignores those of single methods."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self.services: list[str] = []
        """Full names of the registered services."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Register the handlers of services."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, object]) -> None:
        """Note the name of a service: its generic handler has the methods."""
        self.services.append(service)
