"""Restore of one sink of a backup into a running broker, under another name.

The backup is restored into a temporary directory, and served from there on loopback to this process only. The pages of
the sink are published as they are to the new one, partition by partition.
"""

from __future__ import annotations

import dataclasses
import secrets
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forebay.cli.exits import ExitCode
from forebay.cli.operate.progress import Share, no_share
from forebay.cli.report import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from forebay.broker.storage.backup.manifest import Manifest
    from forebay.broker.storage.backup.restores.restore import OnDamage
    from forebay.broker.storage.backup.target import Target
    from forebay.client import Client, Publisher, Receipt

RESTORED: Final = "RESTORED"
"""Reason of the gap that every restore makes."""


@dataclass(frozen=True, slots=True)
class CopiedPartition:
    """Partition of a restored sink."""

    partition: int
    records: int
    first_offset: int | None
    """First offset in the backup; None for an empty partition."""

    last_offset: int | None
    missing: int
    """Records that are gaps in the backup."""


@dataclass(frozen=True, slots=True)
class CopiedSink:
    """Result of the restore of one sink."""

    backup: str
    sink: str
    restored_as: str
    incarnation: str
    schemas: int
    partitions: tuple[CopiedPartition, ...]
    damaged: tuple[str, ...] = ()
    """Damaged files of the backup, of any sink."""

    repaired: tuple[str, ...] = ()
    """Effects of the damage."""


def restore_sink(
    target: Target,
    manifest: Manifest,
    client: Client,
    *,
    sink: str,
    restored_as: str,
    on_damage: OnDamage,
    work_dir: Path | None,
    on_bytes: Share = no_share,
    on_partition: Share = no_share,
) -> CopiedSink:
    """Copy a sink of a backup into the broker of ``client``, durably. The new sink must not exist.

    ``on_bytes`` is called while the backup is read, ``on_partition`` while partitions are copied.
    """
    from forebay.broker.embedded import BrokerServer
    from forebay.broker.runtime.clock import PastClock
    from forebay.broker.settings import load
    from forebay.broker.storage.backup.restores.restore import restore
    from forebay.client import Client as Source
    from forebay.client import ClientSettings

    if sink not in [one.name for one in manifest.sinks] and not manifest.damage:
        raise CommandFailed(f"backup {manifest.id} has no sink {sink!r}", ExitCode.NOT_FOUND)
    with tempfile.TemporaryDirectory(prefix="forebay-restore-", dir=work_dir) as folder:
        made = Path(folder) / "data"
        identity = secrets.token_hex(16)
        report = restore(
            target,
            manifest,
            made,
            on_damage=on_damage,
            store_id=identity,
            at_us=time.time_ns() // 1_000,
            on_bytes=on_bytes,
        )
        # The environment is that of the running broker: its target, its addresses and its credentials.
        settings = load(
            from_environment=False, data_dir=made, listen="127.0.0.1:0", disk_ballast_bytes=0, disk_reserve_bytes=0
        )
        # The records are as old as in the backup, however long ago that was and however long the copy takes.
        clock = PastClock(manifest.taken_at_us)
        with (
            BrokerServer.on_disk(settings, clock) as server,
            Source(server.endpoint, settings=ClientSettings()) as source,
        ):
            copied = _copied(source, client, manifest.id, sink, restored_as, on_partition)
    return dataclasses.replace(copied, damaged=report.damaged, repaired=report.repaired)


def _copied(
    source: Client, client: Client, backup: str, sink: str, restored_as: str, on_partition: Share
) -> CopiedSink:
    """Copy a sink; after a failure there is no new one."""
    found = source.sinks.get(sink)
    given = {field.name: getattr(found.settings, field.name) for field in dataclasses.fields(found.settings)}
    made = client.sinks.create(restored_as, **given)
    with ExitStack() as undo:
        undo.callback(_discard, client, restored_as, made.incarnation)
        schemas = _copied_schemas(source, client, sink, restored_as)
        with client.publisher(restored_as, incarnation=made.incarnation) as publisher:
            partitions: list[CopiedPartition] = []
            for number in range(total := found.settings.partitions):
                on_partition(total, number)
                partitions.append(_copied_partition(source, publisher, sink, number, schemas))
            on_partition(total, total)
        undo.pop_all()
    return CopiedSink(backup, sink, restored_as, made.incarnation, len(schemas), tuple(partitions))


def _discard(client: Client, sink: str, incarnation: str) -> None:
    """Delete a sink that is not complete, unless the broker is gone."""
    from forebay.client.errors import ForebayError

    with suppress(ForebayError):
        client.sinks.delete(sink, force=True, incarnation=incarnation)


def _copied_schemas(source: Client, client: Client, sink: str, restored_as: str) -> dict[int, int]:
    """Register all versions of the schema; returns their new numbers by their old ones."""
    numbers: dict[int, int] = {}
    latest = 0
    for version in [one.version for one in source.schemas.list(sink)]:
        one = source.schemas.get(sink, version)
        numbers[version] = latest = client.schemas.register(
            restored_as, one.arrow_schema, previous=latest, spark_schema=one.spark_schema
        )
    return numbers


def _renumbered(body: bytes, numbers: Mapping[int, int]) -> bytes:
    """Return the body of rows with the new number of its schema."""
    from forebay.page.rows import encode_rows, rows_of

    found = rows_of(body)
    number = numbers[found.schema_version]
    if number == found.schema_version:
        return body
    return encode_rows(number, found.count, bytes(found.messages), found.dictionary_columns)


def _copied_partition(
    source: Client, publisher: Publisher, sink: str, partition: int, numbers: Mapping[int, int]
) -> CopiedPartition:
    """Publish the pages of a partition again. Raises an error of the client if one is not durable."""
    from forebay.client import EncodedPage, Encoding, Gap

    records = missing = 0
    first: int | None = None
    last: int | None = None
    receipts: list[Future[Receipt]] = []
    with source.replay_pages(sink, partition=partition, on_gap="yield") as pages:
        for page in pages:
            if isinstance(page, Gap):
                if page.reason.value != RESTORED:
                    missing += page.last_offset - page.first_offset + 1
                continue
            body = _renumbered(page.body, numbers) if page.encoding is Encoding.ARROW else page.body
            encoded = EncodedPage(body, page.record_count, page.encoding)
            receipts.append(publisher.send_page(encoded, partition=partition))
            records += page.record_count
            first = page.base_offset if first is None else first
            last = page.last_offset
    publisher.flush()
    for receipt in receipts:
        receipt.result()
    return CopiedPartition(partition, records, first, last, missing)
