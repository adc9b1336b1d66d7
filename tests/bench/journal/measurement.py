"""A journal beside the bare engine that holds it: groups, publishing, takeovers and the lag of a follower.

Journal, local store and engine share this disk and its processors, which is the worst case for all of them. Every ratio
is taken within one round; rounds are many and short, because both change their speed within a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from tests.bench import latency
from tests.bench.journal import cold, groups, publishing, reading, shards, takeovers
from tests.bench.journal.groups import APPEND, COMMIT, LOCAL, RAW, Round
from tests.bench.journal.places import DirectoryPlace, Place, has_kafka, has_minio, kafka, linked, minio
from tests.bench.journal.publishing import RECORD_BYTES, Trio
from tests.bench.journal.raw import SMALL_BYTES
from tests.bench.journal.takeovers import Found
from tests.bench.values import MIB, Bar, Row, Sample, Sense, row_of

ROUNDS_EACH: Final = 2
"""Rounds of groups and of publishing per round that is asked for."""
GROUPS: Final = (6, 2)
SMALLS: Final = (150, 50)
PUBLISHED_BYTES: Final = (128 * MIB, 32 * MIB)
SHARD_BYTES: Final = (512 * MIB, 32 * MIB)
"""To each shard: less would take so short that the clock of processor time is too coarse."""
FOLLOWED_BYTES: Final = (2_048 * MIB, 32 * MIB)
"""Published while the lag of a follower is sampled."""
READ_BYTES: Final = (2_048 * MIB, 64 * MIB)
TAKEOVERS: Final = (3, 1)
"""In full, and quickly."""
JOURNAL_BAR: Final = 0.85
PUBLISHER_BAR: Final = 0.7
PUT_FACTOR: Final = 1.3
PUT_ADDED_S: Final = 0.002
PROCESSOR_BAR: Final = 0.8
"""Seconds per 10**9 bytes."""
TAKEOVER_BAR_S: Final = 1.0
LAG_BAR_S: Final = 2.0
SHARDS_BAR: Final = 2.6
COLD_BYTES: Final = (2_048 * MIB, 64 * MIB)
"""Waiting bytes at a start on an empty disk, in full, and quickly."""
COLD_STARTS: Final = 2
COLD_BAR_S: Final = 30.0
"""With 10 GB; the time grows with what waits."""


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure each engine that is there."""
    place = DirectoryPlace(folder / "journals")
    _measure(place, folder / "directory", rounds=rounds, quick=quick, rows=rows, bars=bars, say=say)
    _measure_shards(place, folder / "shards", rounds, SHARD_BYTES[quick], (rows, bars), say)
    if has_minio():
        with minio(folder / "minio") as bucket:
            _measure(bucket, folder / "bucket", rounds=rounds, quick=quick, rows=rows, bars=bars, say=say)
            with linked(bucket) as link:
                _measure_link(link, folder / "link", rounds=rounds, quick=quick, rows=rows, bars=bars, say=say)
    else:
        say("MinIO is not installed, make test-stores does it: no bucket is measured")
    if has_kafka():
        with kafka(folder / "kafka") as topics:
            _measure(topics, folder / "topics", rounds=rounds, quick=quick, rows=rows, bars=bars, say=say)
    else:
        say("Kafka is not installed, make test-stores does it: no topic is measured")


def _measure(
    place: Place,
    folder: Path,
    *,
    rounds: int,
    quick: bool,
    rows: list[Row],
    bars: list[Bar],
    say: Callable[[str], None],
) -> None:
    folder.mkdir()
    total = rounds * ROUNDS_EACH
    grouped: list[Round] = []
    published: list[Trio] = []
    for number in range(total):
        say(f"journal, {place.name}, round {number + 1} of {total}")
        grouped.append(groups.measure(place, folder, groups=GROUPS[quick], smalls=SMALLS[quick], number=number))
        published.append(publishing.measure(place, folder, size=PUBLISHED_BYTES[quick], number=number))
    shard = takeovers.measure(place, folder, size=FOLLOWED_BYTES[quick], takeovers=TAKEOVERS[quick], say=say)
    rows += rows_of(place, grouped, published, shard)
    bars += bars_of(place, grouped, published, shard)
    say(f"read, {place.name}")
    read = reading.measure(place, folder, size=READ_BYTES[quick], rounds=rounds)
    rows.append(row_of(f"{place.name}: read and apply, records of {place.large}", read))
    say(f"start on an empty disk, {place.name}")
    starts_s = cold.measure(place, folder, size=COLD_BYTES[quick], starts=COLD_STARTS)
    rows.append(_times(f"{place.name}: start on an empty disk to first receipt and delivery", starts_s))
    bars.append(Bar(f"{place.name}: longest start on an empty disk in s", max(starts_s), COLD_BAR_S, Sense.AT_MOST))


def _measure_shards(
    place: Place, folder: Path, rounds: int, size: int, into: tuple[list[Row], list[Bar]], say: Callable[[str], None]
) -> None:
    """Measure what does not depend on the engine in one place."""
    folder.mkdir()
    pairs = []
    for number in range(rounds):
        say(f"one shard and three, round {number + 1} of {rounds}")
        pairs.append(shards.measure(place, folder, size=size, number=number))
    rows, bars = into
    rows += [
        row_of("publish to one shard", [pair.one for pair in pairs], record_bytes=RECORD_BYTES),
        row_of("publish to three shards, in turn", [pair.several for pair in pairs], record_bytes=RECORD_BYTES),
    ]
    bars.append(Bar("three shards / one, by processor time", median(pair.factor for pair in pairs), SHARDS_BAR))


def _measure_link(
    place: Place,
    folder: Path,
    *,
    rounds: int,
    quick: bool,
    rows: list[Row],
    bars: list[Bar],
    say: Callable[[str], None],
) -> None:
    """Measure a publisher and a follower where the way to the engine is the limit."""
    folder.mkdir()
    found = []
    for number in range(rounds):
        say(f"publish, {place.name}, round {number + 1} of {rounds}")
        found.append(publishing.measure(place, folder, size=PUBLISHED_BYTES[quick], number=number))
    say(f"follow, {place.name}")
    lag_s = takeovers.measure(place, folder, size=FOLLOWED_BYTES[quick], takeovers=0, say=say).lag_s
    rows += [*_published_rows(place, found), _lag_row(place, lag_s)]
    bars += [_publisher_bar(place, found), _lag_bar(place, lag_s)]


def rows_of(place: Place, grouped: list[Round], published: list[Trio], shard: Found) -> list[Row]:
    """The rows of one engine."""
    engine, things = place.name, f"{place.thing}s of {place.large}"
    names = {
        RAW: f"{engine}: {things}, four at once",
        APPEND: f"{engine}: append of groups of 16 MiB",
        COMMIT: f"{engine}: commit of groups of 16 MiB",
        LOCAL: f"{engine}: beside it, commit without a journal",
    }
    rows = [row_of(name, [one.large[way] for one in grouped]) for way, name in names.items()]
    puts, small = ([second for one in grouped for second in taken(one)] for taken in (_puts, _smalls))
    rows += [
        latency.row_of(f"{engine}: one {place.thing}", puts, SMALL_BYTES),
        latency.row_of(f"{engine}: commit of one page", small, SMALL_BYTES),
        *_published_rows(place, published),
        _lag_row(place, shard.lag_s),
        _times(f"{engine}: takeover to first receipt", shard.takeover_s),
        _times(f"{engine}: kill to first receipt, without the silence", shard.silent_s),
    ]
    return rows


def bars_of(place: Place, grouped: list[Round], published: list[Trio], shard: Found) -> list[Bar]:
    """The bars of one engine."""
    engine, things = place.name, f"{place.thing}s of {place.large}"
    appended = median(one.large[APPEND].bytes_per_s / one.large[RAW].bytes_per_s for one in grouped)
    small = median(median(one.group_s) / (PUT_FACTOR * median(one.put_s) + PUT_ADDED_S) for one in grouped)
    committing = median(added_s_per_gb(one.large[COMMIT], one.large[LOCAL]) for one in grouped)
    serving = median(added_s_per_gb(one.journaled, one.local) for one in published)
    return [
        Bar(f"{engine}: append of 16 MiB / {things}", appended, JOURNAL_BAR),
        _publisher_bar(place, published),
        Bar(f"{engine}: p50 of 4 KiB / (1.3 x {place.thing} + 2 ms)", small, 1.0, Sense.AT_MOST),
        Bar(f"{engine}: processor s/GB of a commit, added", committing, PROCESSOR_BAR, Sense.AT_MOST),
        Bar(f"{engine}: processor s/GB of the broker, added", serving, PROCESSOR_BAR, Sense.AT_MOST),
        Bar(f"{engine}: longest takeover to first receipt in s", max(shard.takeover_s), TAKEOVER_BAR_S, Sense.AT_MOST),
        _lag_bar(place, shard.lag_s),
    ]


def _published_rows(place: Place, published: list[Trio]) -> list[Row]:
    return [
        row_of(
            f"{place.name}: publish with a journal", [one.journaled for one in published], record_bytes=RECORD_BYTES
        ),
        row_of(
            f"{place.name}: beside it, without a journal", [one.local for one in published], record_bytes=RECORD_BYTES
        ),
        row_of(f"{place.name}: beside it, {place.thing}s of {place.large}", [one.raw for one in published]),
    ]


def _publisher_bar(place: Place, published: list[Trio]) -> Bar:
    reached = median(one.journaled.bytes_per_s / one.raw.bytes_per_s for one in published)
    return Bar(f"{place.name}: publisher / {place.thing}s of {place.large}", reached, PUBLISHER_BAR)


def _lag_row(place: Place, lag_s: list[float]) -> Row:
    return _times(f"{place.name}: lag of a follower meanwhile", lag_s)


def _lag_bar(place: Place, lag_s: list[float]) -> Bar:
    return Bar(f"{place.name}: lag of a follower, p99 in s", _p99(lag_s), LAG_BAR_S, Sense.AT_MOST)


def added_s_per_gb(one: Sample, other: Sample) -> float:
    """Return the processor time of one above that of the other, per 10**9 bytes."""
    assert one.cost is not None
    assert other.cost is not None
    return 1e9 * (one.cost.processor_s / one.payload_bytes - other.cost.processor_s / other.payload_bytes)


def _puts(one: Round) -> list[float]:
    return one.put_s


def _smalls(one: Round) -> list[float]:
    return one.group_s


def _times(name: str, taken: list[float]) -> Row:
    return Row(name, p50_ms=median(taken) * 1e3, p99_ms=_p99(taken) * 1e3, runs=len(taken))


def _p99(taken: list[float]) -> float:
    return quantiles(taken, n=100, method="inclusive")[98] if len(taken) > 1 else taken[0]
