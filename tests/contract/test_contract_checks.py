"""The broker obeys the wire contract as `forebay contract` checks it, and a broker that does not is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from forebay.broker.core.settings import Ordering, Overflow, SinkSettings
from forebay.broker.embedded import BrokerServer
from forebay.client import Client, ClientSettings
from forebay.contract import CHECKS, Check, CheckOutcome, Result, run
from forebay.v1 import buffer_service_pb2, dead_letter_service_pb2, epoch_service_pb2, record_pb2, sink_service_pb2
from tests.support.calls.wire_fake import WireFake
from tests.support.proxies.altered import AlteredBroker, Parrot


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as server:
        yield server


def results(endpoint: str, *areas: str) -> list[Result]:
    """Results of the checks of some areas, or of all."""
    chosen = [check for check in CHECKS if not areas or check.area in areas]
    return list(run(endpoint, ClientSettings(), chosen, time_limit_s=100))


def failed(endpoint: str, *areas: str) -> set[str]:
    """Names of the checks that fail."""
    found = results(endpoint, *areas)
    assert {one.outcome for one in found} <= {CheckOutcome.OK, CheckOutcome.FAILED}
    return {one.check for one in found if one.outcome is CheckOutcome.FAILED}


@pytest.mark.parametrize("check", CHECKS, ids=[f"{check.area}: {check.name}" for check in CHECKS])
def test_the_broker_obeys_the_contract(broker: BrokerServer, check: Check) -> None:
    [result] = run(broker.endpoint, ClientSettings(), [check], time_limit_s=60)

    assert (result.outcome, result.detail) == (CheckOutcome.OK, "")


def test_a_check_has_a_name_of_its_own() -> None:
    assert len({(check.area, check.name) for check in CHECKS}) == len(CHECKS)


def test_no_sink_of_a_check_is_left(broker: BrokerServer) -> None:
    with Client(broker.endpoint) as client:
        client.sinks.create("orders")

        results(broker.endpoint)

        assert [sink.name for sink in client.sinks.list()] == ["orders"]


def test_the_defaults_of_a_broker_do_not_matter() -> None:
    defaults = SinkSettings(
        partitions=3,
        buffer_page_size=1,
        fsync=False,
        overflow=Overflow.DROP_OLDEST,
        ordering=Ordering.RELAXED,
        max_disk_cache=2,
        max_attempts=1,
        dlq=False,
        retry_backoff_min_us=60_000_000,
        retry_backoff_max_us=60_000_000,
    )
    with BrokerServer.in_memory(sink_defaults=defaults) as server:
        assert failed(server.endpoint) == set()


def test_a_broker_that_implements_nothing_passes_no_check() -> None:
    with WireFake() as fake:
        found = results(fake.address)

    assert {one.outcome for one in found} == {CheckOutcome.FAILED}
    assert all(one.detail for one in found)


@pytest.mark.parametrize("message", [b"", b"\x08\x01", b"\xff\xff"])
def test_a_broker_that_accepts_everything_and_does_nothing_passes_no_check_of_records(message: bytes) -> None:
    with Parrot(message) as parrot:
        found = results(parrot.endpoint)

    passed = {(one.area, one.check) for one in found if one.outcome is not CheckOutcome.FAILED}
    # A field with the number 1 and the value 1 is a status of health: SERVING.
    assert passed <= ({("health", "the broker and its readiness are SERVING")} if message == b"\x08\x01" else set())


def changed(kind: Any, change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    """Return the alteration of a message of a kind."""

    def alter(message: bytes) -> bytes:
        found = kind.FromString(message)
        change(found)
        return bytes(found.SerializeToString())

    return alter


def shift_receipts(answer: Any) -> None:
    for receipt in answer.receipts:
        receipt.first_offset += 1


def forget_duplicates(response: Any) -> None:
    if response.answer.HasField("receipt"):
        response.answer.receipt.duplicate = False


def forget_attempts(response: Any) -> None:
    if response.HasField("delivery"):
        del response.delivery.attempts[:]


def settle_all(response: Any) -> None:
    for result in response.results.results:
        result.outcome = buffer_service_pb2.SETTLE_OUTCOME_OK


def replay_less(response: Any) -> None:
    del response.pages.pages[-1:]


def replay_without_gaps(response: Any) -> None:
    if response.HasField("gap"):
        response.opened.SetInParent()


def commit_anew(response: Any) -> None:
    response.already_committed = False


def reword(response: Any) -> None:
    for letter in response.dead_letters:
        letter.error = "rejected"


def promise_less(answer: Any) -> None:
    for receipt in answer.receipts:
        receipt.durability = record_pb2.DURABILITY_MEMORY


def create_again(answer: Any) -> None:
    answer.created = True


DEFECTS = [
    ("PublishBatch", buffer_service_pb2.PublishBatchResponse, shift_receipts, "publish", "PublishBatch answers with"),
    ("PublishBatch", buffer_service_pb2.PublishBatchResponse, promise_less, "publish", "PublishBatch answers with"),
    ("Publish", buffer_service_pb2.PublishResponse, forget_duplicates, "publish", "a page that is sent again"),
    ("Deliver", buffer_service_pb2.DeliverResponse, forget_attempts, "delivery", "a nack redelivers"),
    ("Deliver", buffer_service_pb2.DeliverResponse, settle_all, "delivery", "records are delivered in order"),
    ("Ack", buffer_service_pb2.AckResponse, lambda answer: answer.Clear(), "delivery", "Pull, Ack and Nack"),
    ("Replay", buffer_service_pb2.ReplayResponse, replay_less, "replay", "reads a range"),
    ("Replay", buffer_service_pb2.ReplayResponse, replay_without_gaps, "replay", "names the gap"),
    ("CommitEpoch", epoch_service_pb2.CommitEpochResponse, commit_anew, "epochs", "a commit makes staged"),
    ("ListDeadLetters", dead_letter_service_pb2.ListDeadLettersResponse, reword, "dead letters", "a rejected record"),
    ("CreateSink", sink_service_pb2.CreateSinkResponse, create_again, "sinks", "an equal request"),
]


@pytest.mark.parametrize(
    ("rpc", "kind", "change", "area", "named"), DEFECTS, ids=[f"{each[0]}-{each[2].__name__}" for each in DEFECTS]
)
def test_a_defect_fails_the_check_that_is_about_it(
    broker: BrokerServer, rpc: str, kind: type[Message], change: Callable[[Any], None], area: str, named: str
) -> None:
    alter = changed(kind, change)

    def response(method: str, message: bytes) -> bytes:
        return alter(message) if method.endswith(f"/{rpc}") else message

    with AlteredBroker(broker.endpoint, response) as altered:
        found = failed(altered.endpoint, area)

    assert [name for name in found if name.startswith(named)] != []


def without(kind: type[Message]) -> Callable[[bytes], bytes]:
    """Return the alteration of a status that leaves out its details of a kind."""

    def alter(details: bytes) -> bytes:
        status = status_pb2.Status.FromString(details)
        kept = [detail for detail in status.details if not detail.Is(kind.DESCRIPTOR)]
        del status.details[:]
        status.details.extend(kept)
        return bytes(status.SerializeToString())

    return alter


def test_a_relay_that_alters_nothing_fails_no_check(broker: BrokerServer) -> None:
    with AlteredBroker(broker.endpoint) as relay:
        assert failed(relay.endpoint) == set()


def test_rejections_without_a_reason_fail_every_check_of_requests(broker: BrokerServer) -> None:
    with AlteredBroker(broker.endpoint, details=without(error_details_pb2.ErrorInfo)) as altered:
        found = failed(altered.endpoint, "requests")

    assert found == {check.name for check in CHECKS if check.area == "requests"}


def test_a_full_sink_that_names_no_delay_fails_its_check(broker: BrokerServer) -> None:
    with AlteredBroker(broker.endpoint, details=without(error_details_pb2.RetryInfo)) as altered:
        assert failed(altered.endpoint, "limits") == {"a full sink that rejects: SINK_FULL with a delay"}
