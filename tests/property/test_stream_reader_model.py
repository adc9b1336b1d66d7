"""Random histories of a streaming read: Spark's two logs as a model, a query that dies at any point, a real broker.

What must hold: a batch that is run again has the rows that it had; batches together have each record once and in order,
from where the query began; nothing is settled that is not committed; every account balances; and a query at rest has
settled all that it has read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.client import Client, Record, testing
from holdfast.spark import HoldfastDataSource
from holdfast.spark.offsets import parsed
from holdfast.spark.stream_reader import HoldfastStreamReader

NAME: Final = "spark"
Place = tuple[int, int]


class Death(StrEnum):
    """Where a run of a query ends."""

    PLANNED = "before the plan of a batch is in the checkpoint"
    LOGGED = "before a batch is read"
    READ = "before a batch is committed"
    COMMITTED = "before the source hears of a commit"
    NEVER = "at rest"


@dataclass(slots=True)
class Query:
    """A query as Spark runs it: what its checkpoint holds, and what its target has got."""

    endpoint: str
    options: dict[str, str]
    offsets: list[str] = field(default_factory=list)
    """Ends of the batches that were planned: Spark's offset log."""
    committed: int = 0
    """Batches that are done: Spark's commit log."""
    taken: dict[int, list[Place]] = field(default_factory=dict)
    """Rows of each batch that was read, by its number."""
    began: list[dict[int, int]] = field(default_factory=list)
    """What each run was told about where the query begins."""

    def run(self, death: Death, after: int) -> None:
        """Run until there is nothing new, or until it dies in the batch that comes ``after`` others."""
        source = HoldfastDataSource({"endpoint": self.endpoint, "sink": "orders", **self.options})
        reader = source.streamReader(source.schema())
        assert isinstance(reader, HoldfastStreamReader)
        try:
            self._run(reader, death, after)
        finally:
            reader.stop()

    def _run(self, reader: HoldfastStreamReader, death: Death, after: int) -> None:
        if self.offsets and self.committed < len(self.offsets):
            start = self.offsets[-2] if len(self.offsets) > 1 else self._initial(reader)
            if self._finish(reader, start, death if after == 0 else Death.NEVER):
                return
        while True:
            start = self.offsets[-1] if self.offsets else self._initial(reader)
            end = json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))
            if end == start and self.offsets:  # a first batch is planned also without rows
                return
            dies = death if after <= 0 else Death.NEVER
            after -= 1
            if dies is Death.PLANNED:
                return
            self.offsets.append(end)
            if dies is Death.COMMITTED:
                return
            if len(self.offsets) > 1:
                reader.commit(json.loads(start))
            if self._finish(reader, start, dies):
                return

    def _initial(self, reader: HoldfastStreamReader) -> str:
        first, second = (json.dumps(reader.initialOffset()) for _ in range(2))
        assert first == second
        self.began.append(dict(parsed(json.loads(first)).partitions))
        return first

    def _finish(self, reader: HoldfastStreamReader, start: str, death: Death) -> bool:
        """Read the last batch that was planned and commit it; say whether the query died."""
        if death is Death.LOGGED:
            return True
        number = len(self.offsets) - 1
        rows = [
            (row["partition"], row["offset"])
            for part in reader.partitions(json.loads(start), json.loads(self.offsets[-1]))
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        assert self.taken.setdefault(number, rows) == rows, "a batch that is run again has the rows that it had"
        if death is Death.READ:
            return True
        self.committed = number + 1
        return False

    def rows(self) -> list[Place]:
        """Return the rows of all batches that are committed, in order."""
        return [place for number in range(self.committed) for place in self.taken[number]]


STEPS: Final = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.sampled_from(Death), st.integers(0, 2)), min_size=2, max_size=8
)
"""Into which partition how many records come, and where in which batch the query dies then."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(["earliest", "latest"]), st.sampled_from([None, 1, 3]), st.booleans())
def test_a_stream_reads_each_record_once_wherever_it_dies(
    steps: list[tuple[int, int, Death, int]], start: str, limit: int | None, is_subscription: bool
) -> None:
    options = {"startingOffsets": start, "max_records_per_split": "2"}
    options |= {"maxRecordsPerTrigger": str(limit)} if limit else {}
    options |= {"subscription": NAME} if is_subscription else {}
    with testing.broker() as broker, broker.client() as client:
        client.sinks.create("orders", partitions=1, buffer_page_size=1)
        client.publish("orders", [Record(b"x")] * 3, partition=0)
        ends = {0: 3}
        query = Query(broker.endpoint, options)
        for partition, records, death, after in [*steps, (0, 1, Death.NEVER, 0)]:
            while partition not in ends:
                client.sinks.update("orders", partitions=len(ends) + 1)
                ends[len(ends)] = 0
            if records:
                client.publish("orders", [Record(b"x")] * records, partition=partition)
                ends[partition] += records
            query.run(death, after)
            check(client, query, is_subscription=is_subscription)

        first = parsed(json.loads(query.offsets[0]))
        began = first.partitions if first.began is None else first.began
        expected = [(p, offset) for p, end in ends.items() for offset in range(began.get(p, 0), end)]
        assert sorted(query.rows()) == expected
        if is_subscription:
            starts = [[one.get(partition, 0) for partition in ends] for one in query.began]
            assert all(one == starts[0] for one in starts), "the start was pinned"
            assert account(client) == (len(expected), 0)


def check(client: Client, query: Query, *, is_subscription: bool) -> None:
    """Each partition is read in order; nothing is settled before the commit that covers it."""
    for partition in {p for p, _ in query.rows()}:
        offsets = [offset for p, offset in query.rows() if p == partition]
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
    if is_subscription:
        acked, _ = account(client)
        assert acked <= len(query.rows())


def account(client: Client) -> tuple[int, int]:
    """Return what the subscription has acked, and what is pending. It balances, and nothing was skipped."""
    stats: Any = client.sinks.stats("orders")
    assert stats.identity_ok
    found = [one for one in stats.subscriptions if one.name == NAME]
    partitions = [partition for one in found for partition in one.partitions]
    assert sum(one.skipped for one in partitions) == 0
    return sum(one.acked for one in partitions), sum(one.pending for one in partitions)
