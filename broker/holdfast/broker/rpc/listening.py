"""Where a broker listens, and whom it listens to: plainly or by TLS, to everybody or to known tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from holdfast.broker.core.certificates import Certificates
from holdfast.broker.core.tokens import TokenHashes
from holdfast.broker.rpc.authenticating import TokenInterceptor


class Listening:
    """Certificates and tokens of one server. What there is can be renewed; what there is not cannot be added."""

    def __init__(
        self, certificates: Certificates | None, tokens: TokenHashes | None, clock: Callable[[], float]
    ) -> None:
        """``clock`` is monotonic, in seconds."""
        self._certificates = certificates
        self._tokens = None if tokens is None else TokenInterceptor(tokens, clock)

    @property
    def interceptors(self) -> Sequence[grpc.aio.ServerInterceptor]:
        """What a call passes before anything else."""
        return [] if self._tokens is None else [self._tokens]

    def bind(self, server: grpc.aio.Server, listen: str) -> int:
        """Bind HOST:PORT; returns the port. Raises RuntimeError when it cannot be had."""
        if self._certificates is None:
            return server.add_insecure_port(listen)
        credentials = grpc.dynamic_ssl_server_credentials(
            _configured(self._certificates),
            self._configuration,
            require_client_authentication=self._certificates.client_ca is not None,
        )
        return server.add_secure_port(listen, credentials)

    def renew(self, certificates: Certificates | None, tokens: TokenHashes | None) -> None:
        """Take these for the connections and calls to come. What is open goes on."""
        if self._certificates is not None and certificates is not None:
            self._certificates = certificates
        if self._tokens is not None and tokens is not None:
            self._tokens.renew(tokens)

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        """What a new connection is secured with. Runs on gRPC's thread, once for each."""
        assert self._certificates is not None, "nobody asks without TLS"
        return _configured(self._certificates)


def _configured(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificates.key, certificates.chain)], root_certificates=certificates.client_ca
    )
