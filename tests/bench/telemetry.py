"""Publishing with the telemetry of broker and publisher on, spans sampled at 1 %, beside publishing without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from tests.bench.processes import child
from tests.bench.values import MIB, Bar, Load, Row, Sample, Sense, row_of
from tests.support.telemetry.otlp import receiving

SINK: Final = "orders"
RECORD_BYTES: Final = 1_024
LOAD_BYTES: Final = 512 * MIB
"""A shorter load would be over while a process that has just started still connects to its collector."""
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
    spent: dict[bool, list[float]] = {True: [], False: []}
    with receiving() as receiver:
        on = {**SAMPLING, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
        for number in range(rounds * PAIRS):
            say(f"telemetry, pair {number + 1} of {rounds * PAIRS}")
            for is_on in (True, False) if number % 2 else (False, True):
                sample, processor_s = _publish(folder / f"{number}-{is_on}", load, on if is_on else {})
                found[is_on].append(sample)
                spent[is_on].append(processor_s)
    rows += [row_of("publish, no telemetry", found[False]), row_of("publish, telemetry at 1 %", found[True])]
    pairs = list(zip(found[True], found[False], strict=True))
    ratio = median(one.records_per_s / other.records_per_s for one, other in pairs)
    bars.append(Bar("publish with telemetry at 1 % / without", ratio, SHARE_MIN))
    costs = [(one.cost, other.cost) for one, other in pairs if one.cost is not None and other.cost is not None]
    broker = median(one.processor_s / other.processor_s for one, other in costs)
    bars.append(Bar("processor time of the broker, likewise", broker, SPENT_MAX, Sense.AT_MOST))
    publisher = median(one / other for one, other in zip(spent[True], spent[False], strict=True))
    bars.append(Bar("processor time of the publisher, likewise", publisher, SPENT_MAX, Sense.AT_MOST))


def _publish(folder: Path, load: Load, environment: Mapping[str, str]) -> tuple[Sample, float]:
    """Return the sample of a load, with the cost of the broker, and the processor time of the publisher."""
    words = ("serve", "--data-dir", str(folder), "--listen", "127.0.0.1:0", "--log-level", "warning", "-o", "json")
    log = folder.with_suffix(".log")
    with child("forebay.cli", *words, log=log, environment=environment) as process:
        endpoint = str(process.report()["endpoint"])
        with Client(endpoint) as client:
            client.sinks.create(SINK)
        sizes = (str(load.record_bytes), str(load.payload_bytes))
        program = "tests.bench.publishing_program"
        with child(program, endpoint, SINK, *sizes, log=log, environment=environment) as publisher:
            publisher.report()
            before = process.cost()
            publisher.say("publish")
            found = publisher.report()
            sample = Sample(load.records, load.payload_bytes, found["seconds"], process.cost_since(before))
            return sample, float(found["processor_s"])
