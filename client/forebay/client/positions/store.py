"""Store of saved positions: the protocol, and the registry by name.

A store is named by a URL: ``broker:``, ``file:///var/lib/app/positions``, ``s3://bucket/prefix``. Packages add stores
with the entry-point group ``forebay.position_stores``: the name is the scheme of the URL, the value a factory that is
called with the :class:`StoreContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

from forebay.client.settings import invalid_setting
from forebay.client.transport.channel import Channels
from forebay.packaging import install_command

GROUP: Final = "forebay.position_stores"
"""Entry-point group of stores."""

BUILT_IN: Final = {
    "broker": ("forebay.client.positions.stores.broker:open_store", ""),
    "file": ("forebay.client.positions.stores.directory:open_store", ""),
    "memory": ("forebay.client.positions.stores.memory:open_store", ""),
    "s3": ("forebay.client.positions.stores.objects:open_store", "object-store"),
    "gs": ("forebay.client.positions.stores.objects:open_store", "object-store"),
    "az": ("forebay.client.positions.stores.objects:open_store", "object-store"),
    "azure-blob": ("forebay.client.positions.stores.azure_blob:open_store", "azure-blob"),
    "cassandra": ("forebay.client.positions.stores.cassandra:open_store", "cassandra"),
    "postgresql": ("forebay.client.positions.stores.postgresql:open_store", "postgresql"),
}
"""Factory, and the extra that it needs, by scheme."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """Stored document and its version."""

    document: bytes
    version: str
    """Opaque; another document has another version."""


class PositionStore(Protocol):
    """Documents by key, written under a condition. Used by one thread at a time.

    Every method raises ``PositionStoreUnavailable`` for what may pass, and ``PositionStoreError`` for what needs other
    settings. No method blocks for longer than the time limit that the store was opened with. A write is durable, as the
    store defines it, before it returns. After ``PositionStoreUnavailable`` a write may have taken effect.
    """

    def read(self, key: str) -> Versioned | None:
        """Return the latest document of a key; None if there is none."""

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """Write a document if the stored version is ``expected``; returns the new version.

        None expects no document. Raises ``PositionConflict`` for another version, and writes nothing.
        """

    def delete(self, key: str) -> None:
        """Delete a document. No effect if there is none."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with ``prefix``, sorted."""

    def close(self) -> None:
        """Release connections. Idempotent."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """Arguments of a store's factory."""

    url: SplitResult = field(repr=False)
    """URL without a password; what it says beyond its path is not shown."""

    rw_timeout_s: float
    """Time limit of one read or write."""

    channels: Channels
    """Connections of the client, for the store of the broker. The store does not close them."""


StoreFactory = Callable[[StoreContext], PositionStore]


def schemes() -> tuple[str, ...]:
    """Return the schemes of all available stores, sorted."""
    return tuple(sorted({*BUILT_IN, *(found.name for found in entry_points(group=GROUP))}))


def open_store(url: str, *, channels: Channels, rw_timeout_s: float = 10.0) -> PositionStore:
    """Open the store that a URL names.

    Raises ``InvalidArgument`` for an unknown scheme, a password in the URL, and a package that is missing.
    """
    parts = _split(url)
    registered = {found.name: found for found in entry_points(group=GROUP)}
    extra = ""
    if parts.scheme in BUILT_IN:
        value, extra = BUILT_IN[parts.scheme]
        entry = EntryPoint(parts.scheme, value, GROUP)
    elif parts.scheme in registered:
        entry = registered[parts.scheme]
    else:
        allowed = ", ".join(f"{scheme}:" for scheme in schemes())
        raise invalid_setting("store", redacted(parts), f"a URL that begins with {allowed}")
    try:
        factory: StoreFactory = entry.load()
    except ImportError as error:
        hint = f": {install_command(extra)}" if extra else ""
        problem = f"the module {error.name} is not installed{hint}"
        raise invalid_setting("store", redacted(parts), ", ".join(schemes()), problem) from error
    return factory(StoreContext(parts, rw_timeout_s, channels))


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; the message about a malformed one repeats nothing of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None  # a list of hosts is read by its store
    except ValueError:
        raise invalid_setting("store", "(not shown)", "SCHEME://HOST:PORT/PATH with a port of digits") from None
    if parts.password is not None:
        raise invalid_setting(
            "store",
            redacted(parts),
            "a URL without a password",
            "credentials belong in the environment or in credentials_file",
        )
    return parts


def redacted(url: SplitResult) -> str:
    """Return a URL for messages, without user, password and query: they may hold credentials."""
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()
