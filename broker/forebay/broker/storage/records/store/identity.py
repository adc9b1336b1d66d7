"""Identity of a store: 16 random bytes as hex, which the header of every page has too."""

from __future__ import annotations

from typing import Final

from forebay.broker.storage.records.kind import OfStore
from forebay.broker.storage.records.sealed import TEXT

STORE_ID: Final = OfStore(
    name="store id",
    prefix=b"\x01",
    codec=TEXT,
    lives="the store's life",
    damaged="taken from any page",
)
