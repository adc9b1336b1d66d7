"""Publishing with the telemetry of the broker on, spans sampled at 1 %, beside publishing without it.

The client has no SDK: its instruments are no-ops in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from tests.bench.processes import child
from tests.bench.publish import publish
from tests.bench.values import MIB, Bar, Load, Row, Sample, Sense, row_of
from tests.support.telemetry.otlp import receiving

RECORD_BYTES: Final = 1_024
LOAD_BYTES: Final = 128 * MIB
QUICK_BYTES: Final = 32 * MIB
PAIRS: Final = 3
"""Pairs per round: a disk that others share changes its speed between two of them."""
SHARE_MIN: Final = 0.97
"""Least throughput with telemetry, as a share of that without."""
SPENT_MAX: Final = 1.03
"""Most processor time with telemetry, as a share of that without: it varies less where others use the machine too."""
SAMPLING: Final = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure both in turn; which one is first alternates."""
    load = Load(RECORD_BYTES, 1, QUICK_BYTES if quick else LOAD_BYTES)
    found: dict[bool, list[Sample]] = {True: [], False: []}
    with receiving() as receiver:
        on = {**SAMPLING, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
        for number in range(rounds * PAIRS):
            say(f"telemetry, pair {number + 1} of {rounds * PAIRS}")
            for is_on in (True, False) if number % 2 else (False, True):
                found[is_on].append(_publish(folder / f"{number}-{is_on}", load, on if is_on else {}))
    rows += [row_of("publish, no telemetry", found[False]), row_of("publish, telemetry at 1 %", found[True])]
    pairs = list(zip(found[True], found[False], strict=True))
    ratio = median(one.records_per_s / other.records_per_s for one, other in pairs)
    bars.append(Bar("publish with telemetry at 1 % / without", ratio, SHARE_MIN))
    costs = [(one.cost, other.cost) for one, other in pairs if one.cost is not None and other.cost is not None]
    spent = median(one.processor_s / other.processor_s for one, other in costs)
    bars.append(Bar("processor time of the broker, likewise", spent, SPENT_MAX, Sense.AT_MOST))


def _publish(folder: Path, load: Load, environment: Mapping[str, str]) -> Sample:
    words = ("serve", "--data-dir", str(folder), "--listen", "127.0.0.1:0", "--log-level", "warning", "-o", "json")
    log = folder.with_suffix(".log")
    with (
        child("forebay.cli", *words, log=log, environment=environment) as process,
        Client(str(process.report()["endpoint"])) as client,
    ):
        client.sinks.create("orders")
        publish(client, "orders", load, process)
        return publish(client, "orders", load, process)
