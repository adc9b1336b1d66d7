"""Random histories of a streaming read: Spark's two logs as a model, a query that dies at any point, a real broker.

What must hold: a batch that is run again has the rows that it had; batches together have each record once and in order,
from where the query began; nothing is settled that is not committed; every account balances; and a query at rest has
settled all that it has read.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.client import Client, Record, testing
from forebay.spark import ForebayDataSource
from forebay.spark.read.offsets import parsed
from forebay.spark.read.stream_reader import ForebayStreamReader
from tests.support.models.spark_logs import Death, Query

NAME: Final = "spark"


def reader(options: dict[str, str]) -> ForebayStreamReader:
    """Return what a run of a query reads with."""
    source = ForebayDataSource({"sink": "orders", **options})
    found = source.streamReader(source.schema())
    assert isinstance(found, ForebayStreamReader)
    return found


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
        options["endpoint"] = broker.endpoint
        query = Query(lambda: reader(options))
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
            places = [parsed(json.loads(one)).partitions for one in query.began]
            starts = [[one.get(partition, 0) for partition in ends] for one in places]
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
