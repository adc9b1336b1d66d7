"""What a broker proves itself with, and demands of others.

Who reads the files has checked that they go together; nothing looks inside afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Certificates:
    """What TLS needs."""

    chain: bytes
    """PEM: the broker's certificate, and those between it and its authority."""

    key: bytes = field(repr=False)
    """PEM: the certificate's private key."""

    client_ca: bytes | None
    """PEM: authorities of which a client's certificate is demanded; None demands none."""
