"""A store that fails: the broker acknowledges nothing any more and says so; the next one has what was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.errors import StoreFailed, StoreNoSpace
from forebay.broker.storage.store.memory import Action, MemoryStore
from forebay.client import Client, ClientSettings, ForebayError, Record, RetryPolicy
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.refusals import failure

SINK = "orders"
ONCE = ClientSettings(retry=RetryPolicy(tries_max=1))
"""A refusal is checked, not retried."""

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True, slots=True)
class Served:
    """A broker over a store that a test lets fail."""

    store: MemoryStore
    server: BrokerServer
    client: Client

    def publish(self, *values: bytes) -> None:
        """Publish values as one append."""
        self.client.publish(SINK, [Record(value) for value in values], partition=0)

    def fail(self, action: Action, error: StoreFailed | None = None) -> bytes:
        """Have the store fail at the next append; returns the value that was refused."""
        self.store.fail_next(action, error)
        value = b"x" * (5 << 20 if action == "ingest" else 5)
        with failure(Reason.STORE_FENCED):
            self.publish(value)
        return value


@pytest.fixture
def served() -> Iterator[Served]:
    """A broker with a sink and one acknowledged record."""
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint, settings=ONCE) as client:
        client.sinks.create(SINK)
        one = Served(store, server, client)
        one.publish(b"acknowledged")
        yield one


def found_in(store: MemoryStore) -> tuple[list[bytes], bool, int]:
    """Contents of a store as the next broker finds it: values, balance of the accounts, pending records."""
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        stats = client.sinks.stats(SINK)
        return values_of(client, SINK), stats.identity_ok, stats.pending()


@pytest.mark.parametrize("action", ["ingest", "write", "sync"])
def test_an_append_whose_store_fails_is_not_acknowledged_and_none_after_it_is(served: Served, action: Action) -> None:
    served.fail(action)

    with failure(Reason.STORE_FENCED) as later:
        served.publish(b"later")
    with failure(Reason.STORE_FENCED), PublishCall(served.server.endpoint, SINK, "writer"):
        pass
    with failure(Reason.STORE_FENCED):
        served.client.sinks.create("another")

    assert later.value.reason == "STORE_FENCED"
    assert later.value.retry_after_s is not None


@pytest.mark.parametrize("action", ["ingest", "write", "sync"])
def test_a_crash_after_a_failure_leaves_exactly_the_acknowledged_records(served: Served, action: Action) -> None:
    served.fail(action)

    left = served.store.crash()

    assert found_in(left) == ([b"acknowledged"], True, 1)


@pytest.mark.parametrize("kept_batches", [0, 1, 9])
def test_an_append_whose_sync_failed_is_stored_as_a_whole_or_not_at_all_after_a_crash(
    served: Served, kept_batches: int
) -> None:
    refused = served.fail("sync")

    left = served.store.crash(kept_batches=kept_batches)
    values, balances, pending = found_in(left)

    assert values in ([b"acknowledged"], [b"acknowledged", refused])
    assert (balances, pending) == (True, len(values))


def test_a_page_that_waits_after_the_failure_is_not_acknowledged_either(served: Served) -> None:
    with PublishCall(served.server.endpoint, SINK, "writer") as call:
        served.store.fail_next("write")
        for sequence in range(20):
            call.send(sequence, [b"page"])
        with failure(Reason.STORE_FENCED):
            call.answer()

    assert found_in(served.store.crash())[0] == [b"acknowledged"]


@pytest.mark.parametrize("action", ["write", "sync"])
def test_an_ack_whose_store_fails_is_not_answered_ok_and_its_record_is_redelivered(
    served: Served, action: Action
) -> None:
    with DeliverCall(served.server.endpoint, SINK) as call:
        [delivery] = call.delivered(1)
        served.store.fail_next(action)
        with failure(Reason.STORE_FENCED):
            call.ack(delivery.owner_epoch, delivery.revision, 0, 0)

    assert found_in(served.store.crash()) == ([b"acknowledged"], True, 1)


def test_a_fenced_broker_says_that_it_is_not_serving_and_why(served: Served) -> None:
    served.fail("sync", StoreNoSpace("sync", "No space left on device"))

    with grpc.insecure_channel(served.server.endpoint) as channel:
        requests = [health_pb2.HealthCheckRequest(service=name) for name in ("", "readiness")]
        answers = [HealthStub(channel).Check(request, timeout=10).status for request in requests]
    info = served.client.info()

    assert answers == [NOT_SERVING, NOT_SERVING]
    assert info.state == "FENCED"
    assert "No space left on device" in info.state_reason


def test_a_failed_sync_is_never_made_up_for_by_a_later_one(served: Served) -> None:
    refused = served.fail("sync")

    for _ in range(3):
        with pytest.raises(ForebayError):
            served.publish(b"again")
    served.server.stop()

    assert found_in(served.store.crash())[0] == [b"acknowledged"]
    assert refused not in found_in(served.store.crash())[0]
