"""Connections for stores that need none."""

from __future__ import annotations

from forebay.client import ClientSettings
from forebay.client.transport.channel import Channels


def no_channels() -> Channels:
    """Return connections that are never opened."""
    return Channels("127.0.0.1:1", ClientSettings())
