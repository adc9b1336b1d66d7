"""Random histories of a stream of what consumers could not process: Spark's logs as a model, a query and a broker that
die at any point, leases that run out, and a consumer that takes what there is for it.

What must hold: a batch that is run again has the rows that it had, but for what the consumer took; the committed
batches together have no record twice and none that did not fail; what failed is read by the query or taken by the
consumer, and in the end settled; while nothing runs out and no broker dies no record is with both.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, Record
from forebay.spark import ForebayDataSource
from forebay.spark.resend.reader import ForebayResendReader
from tests.support.models.spark_logs import Death, Place, Query

LEASE_S: Final = 600.0
STEPS: Final = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 63),
        st.sampled_from(Death),
        st.integers(0, 2),
        st.sampled_from(["", "", "", "run out", "restart"]),
    ),
    min_size=2,
    max_size=7,
)
"""In which partition which of six new records fail, where in which batch the query dies then, and what comes after."""


class Sink:
    """A sink, its consumer, and the broker that it is in: one after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = FakeClock()
        self.failed: set[Place] = set()
        self.taken: set[Place] = set()
        """Records that failed and were redelivered."""
        self.records = 0
        self.disturbed = False
        """A lease may have run out, or a broker has died."""
        self.server = BrokerServer.in_memory(self.store, clock=self.clock)
        self.server.start()
        with self.client() as client:
            client.sinks.create("orders", partitions=2, ordering="RELAXED", buffer_page_size=2)

    def client(self) -> Client:
        return Client(self.server.endpoint)

    def reader(self, limit: int | None) -> ForebayResendReader:
        options = {"endpoint": self.server.endpoint, "sink": "orders", "mode": "resend", "subscription": "default"}
        options |= {"max_records_per_split": "2"} | ({"maxRecordsPerTrigger": str(limit)} if limit else {})
        source = ForebayDataSource(options)
        found = source.streamReader(source.schema())
        assert isinstance(found, ForebayResendReader)
        return found

    def fail(self, partition: int, which: int) -> None:
        """Publish six records; the consumer nacks some of them, and acks whatever else there is for it."""
        with self.client() as client:
            [receipt] = client.publish("orders", [Record(b"x")] * 6, partition=partition)
            assert receipt.first_offset is not None
            first, self.records = receipt.first_offset, self.records + 6
            places = {(partition, first + place) for place in range(6) if which >> place & 1}
            self.take(client, places)

    def take(self, client: Client, places: set[Place]) -> None:
        """The consumer is given what there is for it: it nacks these places and acks the others."""
        pulled = client.pull("orders", max_records=10_000)
        client.nack("orders", [one for one in pulled if (one.partition, one.offset) in places], delay_s=0.0)
        client.ack("orders", [one for one in pulled if (one.partition, one.offset) not in places])
        self.taken |= {(one.partition, one.offset) for one in pulled} & self.failed
        self.failed |= places

    def disturb(self, how: str) -> None:
        """Let leases run out, or let another broker come."""
        self.disturbed = self.disturbed or bool(how)
        if how == "run out":
            self.clock.advance(LEASE_S)
        elif how == "restart":
            self.server.stop()
            self.store = self.store.reopen()
            self.server = BrokerServer.in_memory(self.store, clock=self.clock)
            self.server.start()

    def account(self) -> tuple[int, int]:
        """Acked and pending records, which balance."""
        with self.client() as client:
            stats = client.sinks.stats("orders")
        assert stats.identity_ok
        parts = stats.subscriptions[0].partitions
        return sum(part.acked for part in parts), sum(part.pending for part in parts)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([None, 1, 4]))
def test_each_failed_record_is_read_once_by_the_query_or_taken_by_the_consumer_wherever_the_query_dies(
    steps: list[tuple[int, int, Death, int, str]], limit: int | None
) -> None:
    sink = Sink()
    try:
        query = Query(lambda: sink.reader(limit), may_be_gone=lambda place: place in sink.taken)
        for partition, which, death, after, then in steps:
            sink.fail(partition, which)
            query.run(death, after)
            rows = query.rows()
            assert len(rows) == len(set(rows)), "a record was committed twice"
            assert set(rows) <= sink.failed, "a record was read that had not failed"
            assert sink.account()[0] <= sink.records - len(sink.failed) + len(set(rows) | sink.taken)
            sink.disturb(then)
        query.run(Death.NEVER, 0)
        if not sink.disturbed:
            assert not sink.taken & set(query.rows()), "the consumer was given what a set has"
        sink.clock.advance(LEASE_S)  # a set that was leased and not planned is released
        query.run(Death.NEVER, 0)
        with sink.client() as client:
            sink.take(client, set())  # after a restart it is the consumer's again

        assert set(query.rows()) | sink.taken == sink.failed
        assert sink.account() == (sink.records, 0)
    finally:
        sink.server.stop()
