"""`make fault-disk`: damages each kind of stored data, one at a time, and checks how a broker reacts.

Three ways to damage (a bit flipped, the end cut off, a range of zeros) are tried in turn at random places. A start that
is refused has to name `forebay repair`, and what that saves is judged the same way. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.storage.errors import REMEDY, StoreError
from forebay.broker.storage.records import registry
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.partitions.cursor import CURSOR, TOTALS
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.records.sinks.writer import SLOT, WRITER
from forebay.broker.storage.records.store import RESTORED
from forebay.broker.storage.repair.command import repair, verify
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.disk_directory import NAMES, SMALL_STORE, TRIMMED, Verdict, fill, judged
from tests.support.storage.memory_folder import memory_folder

HIT: Final = 1
"""The sink whose state is damaged; the others have to stay whole."""


@dataclass(slots=True)
class Row:
    """Results of one kind of damage."""

    kind: str
    trials: int = 0
    unharmed: int = 0
    """Nothing was lost and nothing was reported: the damage was where nothing is read."""
    repaired_at_start: int = 0
    """Nothing was lost."""
    gaps: int = 0
    """Records were lost, and their gap was reported."""
    repaired: int = 0
    """The start was refused and named the remedy, which helped."""
    undetected: int = 0
    failed_starts: int = 0
    others_harmed: int = 0


Damage = Callable[[Path, random.Random], None]


def spoil(content: bytes, chance: random.Random, way: int) -> bytes:
    """Damage bytes in one of three ways."""
    if not content:
        return b"\x55"
    at = chance.randrange(len(content))
    if way == 0:
        return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
    if way == 1:
        return content[:at]
    size = min(len(content) - at, chance.randrange(1, 513))
    return content[:at] + bytes(size) + content[at + size :]


class Value:
    """Damage the stored value of one of these keys."""

    def __init__(self, family: Family, *names: bytes) -> None:
        self.family = family
        self.names = names

    def __call__(self, directory: Path, chance: random.Random) -> None:
        """Damage one of them."""
        store = RocksStore(directory, settings=SMALL_STORE)
        key = chance.choice(self.names)
        [found] = store.get_many(self.family, [key])
        assert found is not None, key.hex()
        while (spoiled := spoil(found, chance, chance.randrange(3))) == found:
            pass  # zeros over zeros
        store.write([Put(self.family, key, spoiled)])
        store.sync()
        store.close()


def file(pattern: str, *, first: float = 0.0, end: float = 1.0) -> Damage:
    """Damage a file of this name, in a part of it."""

    def damage(directory: Path, chance: random.Random) -> None:
        path = chance.choice(sorted(path for path in directory.glob(pattern) if path.stat().st_size))
        content = path.read_bytes()
        low, high = int(len(content) * first), max(1, int(len(content) * end))
        way = chance.randrange(3)
        spoiled = spoil(content[low:high], chance, way)
        path.write_bytes(content[:low] + spoiled + (b"" if way == 1 else content[high:]))

    return damage


def _places(family: Family) -> list[bytes]:
    live = [page for page in range(TRIMMED, 30) if page != 15]
    if family is Family.INDEX:
        return [ENTRY.key(HIT, 0, page * 10) for page in live]
    return [SMALL_PAGE.key(HIT, 0, (1 << 40) + page * 10 + HIT) for page in live if page % 2 == 0]


ELSEWHERE: Final = (RESTORED, JOURNAL_POSITION)
"""Values of the store as a whole that a broker without a restore and a journal has not."""
KINDS: Final[dict[str, tuple[str, Damage]]] = {
    "cursor": ("stopped", Value(Family.META, CURSOR.key(HIT, 0, "default"), CURSOR.key(HIT, 0, "second"))),
    "tail": ("stopped", Value(Family.META, TAIL.key(HIT, 0))),
    "head": ("stopped", Value(Family.META, HEAD.key(HIT, 0))),
    "sink": ("stopped", Value(Family.META, SINK.key(HIT))),
    "subscription": ("stopped", Value(Family.META, SUBSCRIPTION.key(HIT, "second"))),
    "gap": ("stopped", Value(Family.META, GAP.key(HIT, 0, 150))),
    "writer": ("stopped", Value(Family.META, WRITER.key(HIT, "writer"))),
    "schema": ("stopped", Value(Family.META, SCHEMA.key(HIT, 1))),
    "slot": ("stopped", Value(Family.META, SLOT.key(HIT, "writer", 0, 3))),
    "ledger": ("stopped", Value(Family.META, DUE.key(HIT, 0, False, (1 << 40) + HIT))),
    "reserve": ("stopped", Value(Family.META, RESERVE.key(HIT, 0))),
    "totals": ("stopped", Value(Family.META, TOTALS.key(HIT, 0, "default"))),
    "producer": ("stopped", Value(Family.META, PRODUCER.key(HIT, "query"))),
    "epoch": ("stopped", Value(Family.META, EPOCH.key(HIT, "query", 3))),
    "stages of an epoch": ("stopped", Value(Family.META, STAGE_ORDER.key(HIT, "query", 3, 0))),
    "quarantined page": ("stopped", Value(Family.META, QUARANTINE.key(HIT, 0, 7))),
    "store numbers": (
        "stopped",
        Value(
            Family.META,
            *(kind.key() for kind in registry.KINDS if kind.of_store and kind not in {RESTORED, JOURNAL_POSITION}),
        ),
    ),
    "restore": ("restored", Value(Family.META, RESTORED.key())),
    "index entry": ("stopped", Value(Family.INDEX, *_places(Family.INDEX))),
    "small page": ("stopped", Value(Family.SMALL, *_places(Family.SMALL))),
    "bulk page": ("stopped", file("bulk/*.pages", first=0.02, end=0.5)),
    "bulk table": ("stopped", file("bulk/*.pages", end=0.02)),
    "table file (sst)": ("stopped", file("db/*.sst")),
    "log (wal)": ("killed", file("db/*.log")),
    "manifest": ("stopped", file("db/MANIFEST-*")),
    "current": ("stopped", file("db/CURRENT")),
    "synced": ("killed", file("synced")),
}
WHOLE_STORE: Final = {"table file (sst)", "log (wal)", "manifest", "current", "bulk page", "bulk table"}
"""Shared files: they hold pages or state of all sinks, so that damage may affect every sink."""


def trial(template: Path, damage: Damage, row: Row, seed: int) -> list[str]:
    """One directory damaged and judged; returns what was wrong."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="forebay-disk-", dir=memory_folder()) as folder:
        directory = Path(folder) / "store"
        shutil.copytree(template, directory)
        damage(directory, chance)
        row.trials += 1
        if isinstance(damage, Value) and damage.family is Family.META and verify(directory).clean:
            row.undetected += 1
            return [f"seed {seed}: `verify` calls the directory clean"]
        refused = False
        try:
            verdict = judged(directory)
        except StoreError as error:
            refused = True
            saved = Path(folder) / "saved"
            shutil.rmtree(directory)
            shutil.copytree(template, directory)
            damage(directory, random.Random(seed))
            try:
                repair(directory, saved)
                verdict = judged(saved)
            except StoreError as final:
                row.failed_starts += 1
                return [f"seed {seed}: {error}, and the repair: {final}"]
            if REMEDY not in str(error):
                row.failed_starts += 1
                return [f"seed {seed}: refused without a remedy: {error}"]
        _count(row, verdict, refused=refused)
        return [f"seed {seed}: {what}" for what in verdict.wrong]


def _count(row: Row, verdict: Verdict, *, refused: bool) -> None:
    lost = sum(verdict.lost.values())
    others = sum(records for name, records in verdict.lost.items() if name != NAMES[HIT - 1])
    if verdict.wrong:
        row.undetected += 1
    elif refused:
        row.repaired += 1
    elif lost:
        row.gaps += 1
    elif verdict.repairs:
        row.repaired_at_start += 1
    else:
        row.unharmed += 1
    row.others_harmed += bool(others) and row.kind not in WHOLE_STORE


def templates(folder: Path) -> dict[str, Path]:
    """A directory whose broker has stopped, one whose broker was killed, and one that was restored before."""
    stopped, killed = folder / "stopped", folder / "killed"
    store = RocksStore(stopped, settings=SMALL_STORE)
    fill(store)
    shutil.copytree(stopped, killed)
    store.close()
    restored = folder / "restored"
    shutil.copytree(stopped, restored)
    store = RocksStore(restored, settings=SMALL_STORE)
    store.write([RESTORED.put(RESTORED.key(), Restored("00" * 16, "backup-1", 1, 2))])
    store.close()
    return {"stopped": stopped, "killed": killed, "restored": restored}


def campaign(trials: int, seed: int, kinds: list[str], say: Callable[[str], None] = print) -> list[Row]:
    """Damage each kind so many times."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="forebay-disk-", dir=memory_folder()) as folder:
        found = templates(Path(folder))
        for kind in kinds:
            template, damage = KINDS[kind]
            row = Row(kind)
            rows.append(row)
            for number in range(trials):
                for what in trial(found[template], damage, row, seed + number):
                    say(f"WRONG {kind}: {what}")
    return rows


def main() -> int:
    """Run the campaign; the exit code is 1 where something was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    asked = parser.parse_args()
    logging.getLogger("forebay").setLevel(logging.CRITICAL + 1)
    began = time.monotonic()
    rows = campaign(asked.trials, asked.seed, asked.kind or list(KINDS))
    names = [name for name in asdict(rows[0]) if name != "kind"]
    print(f"{'kind':18}" + "".join(f"{name:>15}" for name in names))
    for row in rows:
        print(f"{row.kind:18}" + "".join(f"{getattr(row, name):>15}" for name in names))
    bad = sum(row.undetected + row.failed_starts + row.others_harmed for row in rows)
    result = {"seed": asked.seed, "seconds": round(time.monotonic() - began), "bad": bad}
    print(json.dumps({**result, "kinds": [asdict(row) for row in rows]}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
