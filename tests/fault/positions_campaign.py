"""Kills of consumers with saved positions: `make fault-positions KILLS=300`.

A consumer process is killed with -9 at random moments while records arrive, and started again; now and then a second
one starts beside it and takes over. Some finish their records out of order. An oracle outside of it knows the published
records, those that were processed, and every position that the store has shown:

- at least once: no record is skipped, and no saved position passes a record that was not processed;
- at most once: no record is processed twice, and every processed record is below the saved position;
- both: the saved position and the owner epoch never go back, and nothing of the subscription is settled before it is
  saved.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.client import Client, Record
from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.position import SavedPosition
from forebay.client.positions.settings import ConsumerOptions
from tests.support.campaigns.position_consumer import NAME, SINK, Effects, Job, consume, context

PARTITIONS: Final = 2
GUARANTEES: Final = ("at_least_once", "at_most_once")
RUN_S_MAX: Final = 0.3
"""Longest time from a start, or from the first record of a process, to its kill."""

AT_WORK: Final = 0.7
"""Share of the kills at a moment after the first record; the others hit the start as well."""

TWO_AT_ONCE: Final = 0.2
"""Share of the kills before which a second process takes over."""

OUT_OF_ORDER: Final = 0.4
"""Share of the processes with ``at_least_once`` that finish records out of order."""

START_S: Final = 10.0
DRAIN_S: Final = 60.0
FATAL: Final = ("skipped", "repeated", "positions_back", "positions_wrong", "problems")


@dataclass(slots=True)
class Figures:
    """Result of one store and guarantee. Everything named in ``FATAL`` has to be 0."""

    store: str
    guarantee: str
    kills: int = 0
    published: int = 0
    processed: int = 0
    again: int = 0
    """Records that were processed more than once."""

    missed: int = 0
    """Records that were never processed."""

    skipped: int = 0
    """Of these, the ones under ``at_least_once``."""

    repeated: int = 0
    """Records that were processed more than once under ``at_most_once``."""

    positions_seen: int = 0
    positions_back: int = 0
    positions_wrong: int = 0
    takeovers: int = 0
    fenced: int = 0
    problems: int = 0


class Publisher(threading.Thread):
    """Publishes small pages to random partitions until it is stopped."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.published: list[int] = [0] * PARTITIONS
        self._client = client
        self._chance = chance
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(0.02):
            partition = self._chance.randrange(PARTITIONS)
            count = self._chance.randint(1, 5)
            self._client.publish(SINK, [Record(b"x")] * count, partition=partition)
            self.published[partition] += count

    def stop(self) -> None:
        """End; what was published is final then."""
        self._stopping.set()
        self.join()


class Watch(threading.Thread):
    """Reads the saved positions all the time, and compares them with the effects."""

    def __init__(self, client: Client, url: str, guarantee: str, effects: Effects, say: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.latest: dict[int, SavedPosition] = {}
        self.settled = [0] * PARTITIONS
        self._client = client
        self.seen = self.back = self.wrong = 0
        self._store = client.position_store(url)
        self._guarantee = guarantee
        self._effects = effects
        self._say = say
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(0.01):
            self.look()

    def look(self) -> None:
        """Read everything once, in the order in which the claim can be judged."""
        settled = self._settled()
        if self._guarantee == "at_least_once":
            found = self._positions()
            self._effects.read()
        else:
            self._effects.read()
            found = self._positions()
        for partition, position in found.items():
            if position is not None:
                self._judge(partition, position, settled[partition])

    def _positions(self) -> dict[int, SavedPosition | None]:
        return {partition: self._read(partition) for partition in range(PARTITIONS)}

    def _read(self, partition: int) -> SavedPosition | None:
        key = f"default/{NAME}/{SINK}/{partition}"
        try:
            found = self._store.read(key)
        except PositionStoreUnavailable:
            return None
        return None if found is None else SavedPosition.decode(key, found.document)

    def _settled(self) -> list[int]:
        """Return the lowest unsettled record of the subscription, by partition."""
        [accounts] = [one.partitions for one in self._client.sinks.stats(SINK).subscriptions if one.name == NAME]
        return [one.watermark for one in accounts]

    def _judge(self, partition: int, position: SavedPosition, settled: int) -> None:
        before = self.latest.get(partition)
        self.seen += before is None or before != position
        if before is not None and (position.offset < before.offset or position.epoch < before.epoch):
            self.back += 1
            self._say(f"partition {partition}: {position} behind {before}")
        self.latest[partition] = position
        if self._guarantee == "at_least_once":
            checked = before.offset if before is not None else 0
            wrong = [n for n in range(checked, position.offset) if (partition, n) not in self._effects.seen]
        else:
            highest = self._effects.highest.get(partition, -1)
            wrong = [highest] if highest >= position.offset else []
        if settled > position.offset:
            self.wrong += 1
            self._say(f"partition {partition}: settled to {settled}, but saved to {position.offset}")
        self.settled[partition] = settled
        if wrong:
            self.wrong += 1
            self._say(f"partition {partition}: saved position {position.offset} contradicts records {wrong[:5]}")

    def stop(self) -> None:
        """End after a last look."""
        self._stopping.set()
        self.join()
        self.look()
        self._store.close()


def campaign(
    url: str,
    guarantee: str,
    kills: int,
    seed: int,
    folder: Path,
    say: Callable[[str], None],
    *,
    consumers: str = "",
) -> Figures:
    """Kill consumers on one store; returns the figures, after the last consumer has read to the end.

    ``consumers`` have another guarantee than the one that they are judged by: for a test of the oracle.
    """
    chance = random.Random(seed)
    figures = Figures(url.partition(":")[0], guarantee)
    effects = Effects(folder / "effects")
    settings = load(data_dir=str(folder / "broker"), listen="127.0.0.1:0")
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerServer.on_disk(settings))
        client = stack.enter_context(Client(broker.endpoint))
        client.sinks.create(SINK, partitions=PARTITIONS, buffer_page_size=4)
        client.subscriptions.create(SINK, NAME)
        publisher = Publisher(client, random.Random(seed))
        watch = Watch(client, url, guarantee, effects, say)
        publisher.start()
        watch.start()
        start = _Starter(broker.endpoint, url, consumers or guarantee, effects, chance)
        while figures.kills < kills:
            running = [start.and_wait()]
            if chance.random() < TWO_AT_ONCE:
                running.append(start.and_wait())
                figures.takeovers += 1
            chance.shuffle(running)
            for process in running:
                figures.kills += process.is_alive()
                process.kill()
                process.join()
        publisher.stop()
        last = start(follow=False)
        last.join(DRAIN_S)
        if last.is_alive():
            say("the last consumer did not reach the end")
            last.kill()
        watch.stop()
    effects.read()
    _judge(figures, effects, publisher, watch, say)
    return figures


class _Starter:
    """Starts consumer processes, each with newly drawn settings."""

    def __init__(self, endpoint: str, url: str, guarantee: str, effects: Effects, chance: random.Random) -> None:
        self._arguments = (endpoint, url, str(effects.path))
        self._effects = effects
        self._guarantee = guarantee
        self._chance = chance
        self._context = context()
        self._runs = 0

    def and_wait(self) -> BaseProcess:
        """Start a process and return at the moment of its kill."""
        process, ends_at = self(), time.monotonic() + START_S
        if self._chance.random() < AT_WORK:
            while self._runs not in self._effects.runs and process.is_alive() and time.monotonic() < ends_at:
                time.sleep(0.002)
        time.sleep(self._chance.uniform(0, RUN_S_MAX))
        return process

    def __call__(self, *, follow: bool = True) -> BaseProcess:
        """Start a process."""
        self._runs += 1
        options: ConsumerOptions = {
            "guarantee": self._guarantee,
            "follow": follow,
            "subscription": NAME,
            "settle": not follow or self._chance.random() < 0.5,
            "frequency_s": self._chance.choice([0.0, 0.05]),
            "count_threshold": self._chance.choice([1, 7]),
            "time_threshold_s": 0.1,
            "auto_finish": self._guarantee != "at_least_once" or self._chance.random() >= OUT_OF_ORDER,
        }
        job = Job(*self._arguments, self._runs, options, dict(os.environ))
        process = self._context.Process(target=consume, args=(job,), daemon=True)
        process.start()
        return process


def _judge(figures: Figures, effects: Effects, publisher: Publisher, watch: Watch, say: Callable[[str], None]) -> None:
    published = {(each, offset) for each in range(PARTITIONS) for offset in range(publisher.published[each])}
    figures.published = len(published)
    figures.processed = sum(effects.seen.values())
    figures.again = sum(times > 1 for times in effects.seen.values())
    figures.missed = len(published - effects.seen.keys())
    figures.fenced = effects.fenced
    figures.positions_seen, figures.positions_back, figures.positions_wrong = watch.seen, watch.back, watch.wrong
    if figures.guarantee == "at_least_once":
        figures.skipped = figures.missed
    else:
        figures.repeated = figures.again
    problems = [*effects.problems, *(f"{place} was never published" for place in effects.seen.keys() - published)]
    ends = {partition: found.offset for partition, found in watch.latest.items()}
    if ends != dict(enumerate(publisher.published)):
        problems.append(f"the saved positions {ends} are not the ends {publisher.published}")
    if watch.settled != publisher.published:
        problems.append(f"the subscription is settled to {watch.settled}, not to the ends {publisher.published}")
    figures.problems = len(problems)
    for problem in problems[:5]:
        say(problem)


@contextmanager
def urls(
    names: Sequence[str], set_variable: Callable[[str, str], None] = os.environ.__setitem__
) -> Iterator[dict[str, Callable[[str], str]]]:
    """Yield a function for each store that returns the URL of an empty one; servers run until the end."""
    from tests.support.stores.gcs import GcsServer
    from tests.support.stores.minio import MinioServer
    from tests.support.stores.postgresql import PostgresqlServer
    from tests.support.stores.server import StoreServer

    with ExitStack() as stack:
        found: dict[str, Callable[[str], str]] = {}
        for name in names:
            match name:
                case "broker":
                    found[name] = lambda place: "broker:"
                case "file":
                    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="forebay-store-"))
                    found[name] = lambda place, folder=folder: f"file://{folder}/{place}"  # type: ignore[misc]  # bound now
                case _:
                    kinds: dict[str, type[StoreServer]] = {
                        "postgresql": PostgresqlServer,
                        "s3": MinioServer,
                        "gs": GcsServer,
                    }
                    server = kinds[name](Path(tempfile.mkdtemp(prefix="forebay-store-")))
                    stack.callback(server.close)
                    server.start()
                    for variable, value in server.good.items():
                        set_variable(variable, value)
                    found[name] = server.url
        yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="positions_campaign", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--kills", type=int, default=300, help="kills over all stores and guarantees")
    parser.add_argument("--stores", default="broker,file,postgresql", help="of broker, file, postgresql, s3 and gs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = parser.parse_args(arguments)
    names = chosen.stores.split(",")
    each = -(-chosen.kills // (len(names) * len(GUARANTEES)))
    print(
        f"seed {chosen.seed}, {each} kills for each of {len(names)} stores and {len(GUARANTEES)} guarantees", flush=True
    )
    rows = []
    with urls(names) as places:
        for number, (name, guarantee) in enumerate((name, guarantee) for name in names for guarantee in GUARANTEES):
            with tempfile.TemporaryDirectory(prefix="forebay-positions-") as folder:
                url = places[name](f"kills_{number}")
                rows.append(campaign(url, guarantee, each, chosen.seed + number, Path(folder), print))
            print(json.dumps(asdict(rows[-1])), flush=True)
    broken = {name: sum(getattr(row, name) for row in rows) for name in FATAL}
    print(json.dumps({"kills": sum(row.kills for row in rows), "seed": chosen.seed, **broken}))
    return int(any(broken.values()))


if __name__ == "__main__":
    sys.exit(main())
