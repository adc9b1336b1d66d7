"""Engines by the scheme of their address."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from forebay.broker.storage.replication.engine import Engine, EngineUnsuitable
from forebay.broker.storage.replication.engines.directory import DirectoryEngine

OBJECT_SCHEMES: Final = ("s3", "gs", "az")
"""Schemes of object stores, whose package is an extra."""
TIMEOUT_S: Final = 15.0
"""Time limit of one request to an object store; the owner repeats it."""
RETRIES_MAX: Final = 1


def open_engine(text: str, *, creates: bool = True) -> Engine:
    """Return the engine of a path or an address.

    Forms are `/PATH`, `file:///PATH`, `s3://BUCKET/PREFIX`, `gs://…` and `az://…`.

    ``creates`` is False for a journal that must exist already; of a bucket nothing is looked up.

    Raises ``EngineUnsuitable``, ``OSError`` for a directory that cannot be created, and ``FileNotFoundError`` for one
    without a journal that must have one.
    """
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        return DirectoryEngine(Path(text.removeprefix("file://")), creates=creates)
    if scheme not in OBJECT_SCHEMES:
        raise EngineUnsuitable(
            f"journal {text!r}: the scheme is {scheme!r}; file, {', '.join(OBJECT_SCHEMES)} are allowed"
        )
    try:
        # Imported when it is named: a broker without the extra has no journal in a bucket.
        from forebay.broker.storage.object_stores import AddressInvalid, open_objects  # noqa: PLC0415
        from forebay.broker.storage.replication.engines.bucket import BucketEngine  # noqa: PLC0415
    except ImportError as missing:
        raise EngineUnsuitable(
            f"journal {text!r}: the package obstore is missing; install forebay[broker,object-store]"
        ) from missing
    try:
        objects, address = open_objects(text, timeout_s=TIMEOUT_S, retries_max=RETRIES_MAX)
    except AddressInvalid as error:
        raise EngineUnsuitable(f"journal {error}") from error
    return BucketEngine(objects, address)


def below(text: str, *names: str) -> str:
    """Return the address of a folder below a path or an address, with the options of that address."""
    if "://" not in text:
        return str(Path(text, *names))
    url = urlsplit(text)
    return urlunsplit(url._replace(path="/".join([url.path.rstrip("/"), *names])))
