"""Engines by the scheme of their address."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from forebay.broker.storage.replication.engine import Engine, EngineUnsuitable
from forebay.broker.storage.replication.engines.directory import DirectoryEngine

OBJECT_SCHEMES: Final = ("s3", "gs", "az")
"""Schemes of object stores, whose package is an extra."""
KAFKA: Final = "kafka"
"""Scheme of a topic, whose package is another extra."""
TIMEOUT_S: Final = 15.0
"""Time limit of one request to an object store; the owner repeats it."""
RETRIES_MAX: Final = 1


def open_engine(text: str, *, creates: bool = True) -> Engine:
    """Return the engine of a path or an address.

    Forms are `/PATH`, `file:///PATH`, `s3://BUCKET/PREFIX`, `gs://…`, `az://…` and `kafka://HOST:PORT,…/TOPIC`.

    ``creates`` is False for a journal that must exist already; of a bucket nothing is looked up.

    Raises ``EngineUnsuitable``, ``OSError`` for a directory that cannot be created, ``FileNotFoundError`` for one
    without a journal that must have one, and for a topic that does not exist, and ``EngineAway`` where Kafka does not
    answer.
    """
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        return DirectoryEngine(Path(text.removeprefix("file://")), creates=creates)
    if scheme == KAFKA:
        return _open_topic(text, creates=creates)
    if scheme not in OBJECT_SCHEMES:
        raise EngineUnsuitable(
            f"journal {text!r}: the scheme is {scheme!r}; file, {', '.join((*OBJECT_SCHEMES, KAFKA))} are allowed"
        )
    return _open_bucket(text)


def _open_bucket(text: str) -> Engine:
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


def _open_topic(text: str, *, creates: bool) -> Engine:
    try:
        # Imported when it is named: a broker without the extra has no journal in Kafka.
        from forebay.broker.storage.replication.engines.kafka.connection.address import parse_address  # noqa: PLC0415
        from forebay.broker.storage.replication.engines.kafka.engine import KafkaEngine  # noqa: PLC0415
    except ImportError as missing:
        raise EngineUnsuitable(
            f"journal {text!r}: the package confluent-kafka is missing; install forebay[broker,kafka]"
        ) from missing
    return KafkaEngine(parse_address(text), creates=creates)


def below(text: str, *names: str) -> str:
    """Return the address of a folder below a path or an address, with the options of that address.

    Topics have no folders: their names are joined by dots.
    """
    if "://" not in text:
        return str(Path(text, *names))
    url = urlsplit(text)
    if url.scheme == KAFKA:
        return urlunsplit(url._replace(path=".".join([url.path.rstrip("/"), *names])))
    return urlunsplit(url._replace(path="/".join([url.path.rstrip("/"), *names])))
