"""Listener of a broker: its addresses, with or without TLS, and the authentication of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import grpc
import grpc.aio

from forebay.broker.core.access.certificates import Certificates
from forebay.broker.core.access.credentials import Credentials
from forebay.broker.rpc.access.authorizer import Authorizer
from forebay.broker.rpc.access.guard import AccessGuard, OnRefused


class Listener:
    """Certificates and credentials of one server. Existing ones can be renewed, missing ones not added."""

    def __init__(
        self,
        certificates: Certificates | None,
        credentials: Credentials | None,
        clock: Callable[[], float],
        on_refused: OnRefused = lambda caller, reason: None,
    ) -> None:
        """``clock`` is monotonic, in seconds. ``on_refused``: see ``AccessGuard``."""
        self._certificates = certificates
        self._controlled = credentials is not None
        self._guard = AccessGuard(credentials, clock, on_refused)

    @property
    def credentials(self) -> Credentials | None:
        """Credentials at this time; None without access control."""
        return self._guard.credentials

    def interceptors(self, reading: grpc.aio.ServerInterceptor) -> Sequence[grpc.aio.ServerInterceptor]:
        """Return the interceptors of a call: authentication, ``reading``, which decodes, and authorization."""
        return [self._guard, reading, Authorizer(controlled=self._controlled)]

    def bind(self, server: grpc.aio.Server, listen: str) -> int:
        """Bind HOST:PORT; returns the port. Raises RuntimeError if it cannot be bound."""
        if self._certificates is None:
            return server.add_insecure_port(listen)
        # The stubs do not know that None is "no change".
        renewals = cast("Callable[[], grpc.ServerCertificateConfiguration]", self.renewals(self._certificates))
        credentials = grpc.dynamic_ssl_server_credentials(
            _configured(self._certificates),
            renewals,
            require_client_authentication=self._certificates.client_ca is not None,
        )
        return server.add_secure_port(listen, credentials)

    def renew(self, certificates: Certificates | None, credentials: Credentials | None) -> None:
        """Use these for later connections and calls. Open calls end if their credential is revoked."""
        if self._certificates is not None and certificates is not None:
            self._certificates = certificates
        if self._controlled and credentials is not None:
            self._guard.renew(credentials)

    def renewals(self, given: Certificates) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        """Return the callback of gRPC for new connections: certificates newer than ``given``, once, or None.

        With every result but None gRPC rebuilds its TLS context and frees the one before, which a concurrent handshake
        on another of its threads still uses: a flood of connections would crash the process.
        """

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            current = self._certificates
            if current is None or current == given:
                return None
            given = current
            return _configured(current)

        return renewed


def _configured(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificates.key, certificates.chain)], root_certificates=certificates.client_ca
    )
