"""TLS certificates of a broker, and the authorities of client certificates.

The loader of the files has checked that they match; the content is not examined afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates and key for TLS."""

    chain: bytes
    """PEM: the certificate chain of the broker, without its root authority."""

    key: bytes = field(repr=False)
    """PEM: the certificate's private key."""

    client_ca: bytes | None
    """PEM: authorities of the required client certificates; None requires none."""
