"""The address of a peer, as gRPC names it."""

from __future__ import annotations

import pytest

from forebay.broker.rpc.transport.peers import address


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:192.0.2.1:1234", ("192.0.2.1", 1234)),
        ("ipv6:%5B2001:db8::1%5D:80", ("2001:db8::1", 80)),
        ("ipv6:[::1]:80", ("::1", 80)),
        ("ipv6:%5Bfe80::1%25eth0%5D:80", ("fe80::1", 80)),
        ("unix:/run/x", None),
        ("", None),
    ],
)
def test_a_peer_has_the_address_of_its_socket(peer: str, expected: tuple[str, int] | None) -> None:
    assert address(peer) == expected
