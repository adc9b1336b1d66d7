"""Public API of the asyncio client of Forebay.

    async with aio.Client("broker:7461") as client, await client.publisher("orders") as publisher:
        pending = await publisher.send(b"value")
        receipt = await pending

Values, settings and errors are those of ``forebay.client``.
"""

from __future__ import annotations

from forebay.client.aio.admin import (
    Backups,
    DeadLetters,
    Epochs,
    Positions,
    Realtime,
    Resends,
    Schemas,
    Sinks,
    Subscriptions,
)
from forebay.client.aio.client import Client
from forebay.client.aio.publisher import Pending, Publisher
from forebay.client.aio.replay import PageReplay, RecordReplay
from forebay.client.aio.subscriber import Delivery, Settled, Subscriber

__all__ = [
    "Backups",
    "Client",
    "DeadLetters",
    "Delivery",
    "Epochs",
    "PageReplay",
    "Pending",
    "Positions",
    "Publisher",
    "Realtime",
    "RecordReplay",
    "Resends",
    "Schemas",
    "Settled",
    "Sinks",
    "Subscriber",
    "Subscriptions",
]
