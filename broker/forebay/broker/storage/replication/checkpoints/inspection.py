"""Inspection of a snapshot before it becomes a checkpoint.

A damaged replica must not replace intact records. A process of its own opens the snapshot, see ``backup.accounts``. It
reads all state, all index entries and all small pages, and those bulk files that no earlier checkpoint has. Each
page has its checksum, and each index entry its page. Quarantined pages are known to be damaged.

    python -m forebay.broker.storage.replication.checkpoints.inspection SNAPSHOT < NAMES OF NEW FILES
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.accounts import NICE
from forebay.broker.storage.backup.errors import BackupStopped
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.records.header import damage_of
from forebay.broker.storage.records.key_layout import Span
from forebay.broker.storage.records.pages.entry import ENTRY, base_of, decode_entry
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.scans import SLICE, bulk_keys_all, scan_all
from forebay.broker.storage.store.bulk.file import keys_in_name
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings

POLL_S: Final = 0.05
PAGES_AT_ONCE: Final = 8
FIRST_SINK: Final = 1
"""Lowest number of a sink: the index has copies of sinks below it."""
ALL_KEYS: Final = b"", b"\xff" * 64
_SETTINGS: Final = RocksSettings(
    block_cache_bytes=8 << 20,
    open_tables_max=64,
    open_bulk_max=8,
    open_files_beside=0,
    opens_damaged=False,
)


def inspect(snapshot: Path, new: Iterable[str], stop: threading.Event) -> str:
    """Return the damage of a snapshot, empty if there is none.

    ``new`` are the names of bulk files that are read as a whole. The snapshot is opened for it, which changes its
    files. Raises ``BackupStopped`` when ``stop`` is set.
    """
    command = [sys.executable, "-m", __name__, str(snapshot)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        output, errors = _answer(process, "\n".join(new), stop)
    if process.returncode:
        return errors.strip().rpartition("\n")[2] or f"exit code {process.returncode}"
    return output.strip()


def _answer(process: subprocess.Popen[str], given: str | None, stop: threading.Event) -> tuple[str, str]:
    """Return the outputs of the process, which is killed when ``stop`` is set."""
    while True:
        try:
            return process.communicate(given, timeout=POLL_S)
        except subprocess.TimeoutExpired:
            given = None
            if stop.is_set():
                process.kill()
                raise BackupStopped("the checkpoint was stopped and is incomplete") from None


def main(snapshot: Path, new: Iterable[str]) -> None:
    """Write the first damage of a snapshot to standard output."""
    try:
        store = RocksStore(snapshot, settings=_SETTINGS)
        try:
            problem = next(problems(store, new), "")
        finally:
            store.close()
    except (StoreError, Undecodable) as damage:
        problem = str(damage)
    sys.stdout.write(problem)


def problems(store: Store, new: Iterable[str]) -> Iterator[str]:
    """Yield the damage of a store. Raises ``StoreError`` and ``Undecodable``."""
    quarantined = {QUARANTINE.parts(key) for key, _ in scan_all(store, Family.META, *QUARANTINE.under())}
    for _ in scan_all(store, Family.META, *ALL_KEYS):
        pass  # each block has its checksum
    for name in new:
        yield from _bulk_problems(store, name, quarantined)
    for key, value in scan_all(store, Family.SMALL, *ALL_KEYS):
        sink, partition, number = SMALL_PAGE.parts(key)
        if (damage := damage_of(value, sink, partition, number)) and (sink, partition, number) not in quarantined:
            yield f"small page {number} of sink {sink}, partition {partition}: {damage}"
    yield from _missing(store)


def _bulk_problems(store: Store, name: str, quarantined: set[tuple[int, int, int]]) -> Iterator[str]:
    keys_of = keys_in_name(name)
    if keys_of is None:
        yield f"{name} is not a bulk file"
        return
    span: Span = keys_of[0], keys_of[1] + b"\0"
    keys = list(bulk_keys_all(store, *span))
    for at in range(0, len(keys), PAGES_AT_ONCE):
        window = keys[at : at + PAGES_AT_ONCE]
        for key, value in zip(window, store.get_many(Family.BULK, window), strict=True):
            number, sink, partition = BULK_PAGE.parts(key)
            damage = "missing" if value is None else damage_of(value, sink, partition, number)
            if damage and (sink, partition, number) not in quarantined:
                yield f"page {number} of sink {sink}, partition {partition} in {name}: {damage}"


def _missing(store: Store) -> Iterator[str]:
    """Yield the index entries without a page."""
    bulk = {BULK_PAGE.parts(key) for key in bulk_keys_all(store, *ALL_BULK)}
    small: list[bytes] = []
    for key, value in scan_all(store, Family.INDEX, ENTRY.key(FIRST_SINK), ALL_KEYS[1]):
        sink, partition, _ = ENTRY.parts(key)
        entry = decode_entry(value, base_of(key))
        if not entry.bulk:
            small.append(SMALL_PAGE.key(sink, partition, entry.number))
        elif (entry.number, sink, partition) not in bulk:
            yield f"page {entry.number} of sink {sink}, partition {partition} is missing"
        if len(small) == SLICE:
            yield from _missing_small(store, small)
            small = []
    yield from _missing_small(store, small)


def _missing_small(store: Store, keys: Sequence[bytes]) -> Iterator[str]:
    for key, value in zip(keys, store.get_many(Family.SMALL, keys), strict=True):
        if value is None:
            sink, partition, number = SMALL_PAGE.parts(key)
            yield f"small page {number} of sink {sink}, partition {partition} is missing"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.read().split())
