"""Three shards beside one: what the brokers spend for the same bytes.

Where every broker has a core, as many shards take as much more as their processor time for a byte allows. Fewer cores
than brokers cannot show that by the clock.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.client import Client
from tests.bench.journal.places import Place
from tests.bench.journal.publishing import PARTITIONS, RECORD_BYTES, WARM_BYTES
from tests.bench.processes import Child, broker
from tests.bench.publish import publish
from tests.bench.values import Cost, Load, Sample
from tests.support.calls.eventually import until

SHARDS: Final = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Pair:
    """Figures of one round."""

    one: Sample
    """All bytes through one shard."""

    several: Sample
    """As many bytes through each of `SHARDS`, in turn."""

    @property
    def factor(self) -> float:
        """Bytes that several shards on cores of their own take in the time in which one takes one."""
        return len(SHARDS) * _spent(self.one) / _spent(self.several)


def measure(place: Place, folder: Path, *, size: int, number: int) -> Pair:
    """Publish ``size`` bytes to each shard, both ways; ``number`` turns the order."""
    order = (SHARDS, SHARDS[:1]) if number % 2 else (SHARDS[:1], SHARDS)
    found = {names: _publish(place, folder, names, size) for names in order}
    return Pair(found[SHARDS[:1]], found[SHARDS])


def _publish(place: Place, folder: Path, names: tuple[str, ...], size: int) -> Sample:
    brokers: dict[str, Child] = {}
    addresses: list[str] = []
    with ExitStack() as running:
        for name in names:
            data = folder / f"shard-{name}"
            settings = {**place.environment, "FOREBAY_JOURNAL": place.address("fleet"), "FOREBAY_SHARD": name}
            brokers[name], endpoint = running.enter_context(broker(data, data.with_suffix(".log"), settings))
            addresses.append(endpoint)
        client = running.enter_context(Client(f"forebay://{','.join(addresses)}"))
        until(lambda: {shard.name for shard in client.shards.list()} == set(names))
        samples = []
        for name, process in brokers.items():
            client.sinks.create(name, partitions=PARTITIONS, shard=name)
            publish(client, name, Load(RECORD_BYTES, PARTITIONS, WARM_BYTES), process)
            samples.append(publish(client, name, Load(RECORD_BYTES, PARTITIONS, size), process))
    for name in names:
        shutil.rmtree(folder / f"shard-{name}")
    place.remove("fleet")
    return _sum(samples)


def _sum(samples: list[Sample]) -> Sample:
    costs = [one.cost for one in samples if one.cost is not None]
    return Sample(
        sum(one.records for one in samples),
        sum(one.payload_bytes for one in samples),
        sum(one.seconds for one in samples),
        Cost(sum(one.processor_s for one in costs), sum(one.written_bytes for one in costs)),
    )


def _spent(sample: Sample) -> float:
    """Return the processor time for a byte, in seconds."""
    assert sample.cost is not None
    return sample.cost.processor_s / sample.payload_bytes
