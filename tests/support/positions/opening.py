"""Connections for stores that need none."""

from __future__ import annotations

from forebay.client import ClientSettings
from forebay.client.transport.channel import Channels, as_endpoints


def no_channels() -> Channels:
    """Return connections that are never opened."""
    return Channels(as_endpoints("127.0.0.1:1"), ClientSettings())
