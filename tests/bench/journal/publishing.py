"""Publishing to a broker with a journal, beside one without, and the bare engine: in turn within each round."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.client import Client
from tests.bench.journal.groups import raw_rate
from tests.bench.journal.places import Place
from tests.bench.journal.raw import GROUP_BYTES
from tests.bench.processes import broker
from tests.bench.publish import publish
from tests.bench.values import MIB, Load, Sample

RECORD_BYTES: Final = 1_024
PARTITIONS: Final = 4
WARM_BYTES: Final = 16 * MIB
SINK: Final = "orders"


@dataclass(frozen=True, slots=True)
class Trio:
    """Figures of one round."""

    raw: Sample
    """As many bytes created by the engine, as groups are."""

    journaled: Sample
    local: Sample


def measure(place: Place, folder: Path, *, size: int, number: int) -> Trio:
    """Publish ``size`` bytes both ways; ``number`` turns the order."""
    raw = raw_rate(place, f"beside-{number}", size // GROUP_BYTES)
    journal = f"published-{number}"
    settings = {**place.environment, "FOREBAY_JOURNAL": place.address(journal)}
    found: dict[bool, Sample] = {}
    for is_journaled in (True, False) if number % 2 else (False, True):
        found[is_journaled] = _publish(folder / f"data-{number}", size, settings if is_journaled else {})
        if is_journaled:
            place.remove(journal)
    return Trio(raw, found[True], found[False])


def _publish(folder: Path, size: int, environment: Mapping[str, str]) -> Sample:
    with (
        broker(folder, folder.with_suffix(".log"), environment) as (process, endpoint),
        Client(endpoint) as client,
    ):
        client.sinks.create(SINK, partitions=PARTITIONS)
        publish(client, SINK, Load(RECORD_BYTES, PARTITIONS, WARM_BYTES), process)
        found = publish(client, SINK, Load(RECORD_BYTES, PARTITIONS, size), process)
    shutil.rmtree(folder)
    return found
