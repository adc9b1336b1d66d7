"""Address of a peer, parsed from gRPC's name of it.

Examples are ``ipv4:192.0.2.1:1234`` and ``ipv6:%5B2001:db8::1%5D:1234``.
"""

from __future__ import annotations

from urllib.parse import unquote


def address(peer: str) -> tuple[str, int] | None:
    """Return host and port, None where the peer has none."""
    family, _, rest = peer.partition(":")
    host, colon, port = rest.rpartition(":")
    if family not in {"ipv4", "ipv6"} or not colon or not port.isdigit():
        return None
    return unquote(host).strip("[]").partition("%")[0], int(port)
