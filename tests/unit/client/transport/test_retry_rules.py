"""Calls that the client repeats after a lost answer: one table, and the calls obey it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import repeat
from types import TracebackType
from typing import Any, Final, Self

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from forebay.client import (
    BrokerUnavailable,
    Client,
    DeliveredRecord,
    EpochCommit,
    ForebayError,
    Record,
    ResendRanges,
    errors,
)
from forebay.client.positions.position import PositionKey
from forebay.client.transport.retry_rules import RULES, Repeat
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2
from tests.support.calls.wire_fake import QUICK, WireFake, abort, status
from tests.support.rules.services import METHODS

UNARY: Final = {method.name for method in METHODS.values() if not (method.client_streaming or method.server_streaming)}
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
PULLED: Final = DeliveredRecord(0, 0, None, b"", (), None, NOON, 0, False, 1, 1, "i")
POSITION: Final = PositionKey("default", "billing", "orders", 0)
RANGES: Final = ResendRanges(0, 0, ((0, 1),), (), "i")

CALLS: Final[dict[str, Callable[[Client], object]]] = {
    "GetBrokerInfo": lambda client: client.info(),
    "ListConnections": lambda client: list(client.connections()),
    "ListShards": lambda client: client.shards.list(),
    "PublishBatch": lambda client: client.publish("orders", [Record(b"x")]),
    "Pull": lambda client: client.pull("orders"),
    "Ack": lambda client: client.ack("orders", [PULLED]),
    "Nack": lambda client: client.nack("orders", [PULLED]),
    "Peek": lambda client: client.peek("orders"),
    "Replay": lambda client: client.offset_at("orders", NOON, partition=0),
    "CreateSink": lambda client: client.sinks.create("orders"),
    "GetSink": lambda client: client.sinks.get("orders"),
    "ListSinks": lambda client: client.sinks.list(),
    "UpdateSink": lambda client: client.sinks.update("orders", partitions=2),
    "DeleteSink": lambda client: client.sinks.delete("orders"),
    "PauseSink": lambda client: client.sinks.pause("orders"),
    "ResumeSink": lambda client: client.sinks.resume("orders"),
    "PurgeSink": lambda client: client.sinks.purge("orders"),
    "ListGaps": lambda client: list(client.sinks.gaps("orders")),
    "ExplainRecord": lambda client: client.sinks.explain("orders", 0),
    "GetSinkStats": lambda client: client.sinks.stats("orders"),
    "CreateSubscription": lambda client: client.subscriptions.create("orders", "audit"),
    "ListSubscriptions": lambda client: client.subscriptions.list("orders"),
    "DeleteSubscription": lambda client: client.subscriptions.delete("orders", "audit"),
    "SeekSubscription": lambda client: client.subscriptions.seek("orders", to="latest"),
    "SettleSubscription": lambda client: client.subscriptions.settle("orders", offsets={0: 1}),
    "LeaseResends": lambda client: client.resends.lease("orders", holder="job"),
    "SettleResends": lambda client: client.resends.settle("orders", holder="job", ranges=[RANGES]),
    "ReleaseResends": lambda client: client.resends.release("orders", holder="job"),
    "ListDeadLetters": lambda client: list(client.dead_letters.list("orders")),
    "RedriveDeadLetters": lambda client: client.dead_letters.redrive("orders"),
    "PurgeDeadLetters": lambda client: client.dead_letters.purge("orders"),
    "TakeTicket": lambda client: client.epochs.take_ticket("orders"),
    "CommitEpoch": lambda client: client.epochs.commit([EpochCommit("orders", "p", 0, "r", 1)], patience_s=0.05),
    "AbortEpoch": lambda client: client.epochs.abort("orders", "p", 0, ["t"]),
    "GetEpoch": lambda client: client.epochs.get("orders", "p"),
    "ListEpochs": lambda client: list(client.epochs.list("orders")),
    "RegisterSchema": lambda client: client.schemas.register("orders", b"s", previous=0),
    "GetSchema": lambda client: client.schemas.get("orders"),
    "ListSchemas": lambda client: client.schemas.list("orders"),
    "HandOver": lambda client: client.shards.hand_over(),
    "SetRealtime": lambda client: client.realtime.set(False, sink="orders"),
    "GetBackupStatus": lambda client: client.backups.status(),
    "ReadPosition": lambda client: client.positions.get(POSITION),
    "WritePosition": lambda client: client.positions.write(POSITION, b"1"),
    "DeletePosition": lambda client: client.positions.delete(POSITION),
    "ListPositions": lambda client: list(client.positions.list()),
}
"""Call of each rpc by the client."""
NOT_MADE: Final = {"ExtendDeadline"}
"""Calls that the client makes on its streams only."""


class Losing(grpc.GenericRpcHandler):
    """A broker that loses the answers to one rpc and answers all others with nothing in particular."""

    def __init__(self, lost: str, reason: str = "") -> None:
        self.requests: dict[str, list[Any]] = {}
        self._lost, self._reason = lost, reason
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        self._port = self._server.add_insecure_port("127.0.0.1:0")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Handle every rpc of ours."""
        method = METHODS[handler_call_details.method]
        answer = GetMessageClass(method.output_type)

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            self.requests.setdefault(method.name, []).append(request)
            if method.name == self._lost:
                abort(context, status(grpc.StatusCode.UNAVAILABLE, self._reason))
            return answer()

        read = GetMessageClass(method.input_type).FromString
        if not method.server_streaming:
            return grpc.unary_unary_rpc_method_handler(handle, read, answer.SerializeToString)
        return grpc.unary_stream_rpc_method_handler(
            lambda request, context: iter([handle(request, context)]), read, answer.SerializeToString
        )

    def tries(self, rpc: str) -> int:
        """Number of calls."""
        return len(self.requests.get(rpc, []))

    def __enter__(self) -> Self:
        """Listen."""
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._server.stop(0).wait()

    def client(self) -> Client:
        """Return a client of it."""
        return Client(f"127.0.0.1:{self._port}", settings=QUICK)


def test_every_unary_rpc_of_the_contract_has_a_rule() -> None:
    assert set(RULES) - UNARY == {"Replay"}
    assert UNARY - set(RULES) == set()


def test_no_two_services_share_the_name_of_an_rpc() -> None:
    counted = Counter(method.name for method in METHODS.values())

    assert [name for name, count in counted.items() if count > 1] == []


def test_every_rpc_that_the_client_makes_is_tried_here() -> None:
    assert set(CALLS) == set(RULES) - NOT_MADE


@pytest.mark.parametrize("rpc", sorted(CALLS))
def test_a_call_whose_answer_is_lost_is_made_again_as_its_rule_says(rpc: str) -> None:
    with Losing(rpc) as broker, broker.client() as client, pytest.raises(BrokerUnavailable):
        CALLS[rpc](client)

    assert (broker.tries(rpc) == 1) == (RULES[rpc].repeat is Repeat.NEVER)


@pytest.mark.parametrize("rpc", sorted(CALLS))
def test_a_call_that_is_made_again_is_the_same_request(rpc: str) -> None:
    with Losing(rpc) as broker, broker.client() as client, pytest.raises(BrokerUnavailable):
        CALLS[rpc](client)

    first, *others = broker.requests[rpc]
    assert all(other == first for other in others)


@pytest.mark.parametrize("rpc", sorted(CALLS))
def test_a_call_of_which_a_draining_broker_has_done_nothing_is_made_again(rpc: str) -> None:
    with Losing(rpc, "DRAINING") as broker, broker.client() as client, pytest.raises(errors.BrokerDraining):
        CALLS[rpc](client)

    assert broker.tries(rpc) > 1


def test_a_publish_is_made_again_where_twice_is_better_than_not_at_all() -> None:
    with Losing("PublishBatch") as broker, broker.client() as client, pytest.raises(BrokerUnavailable):
        client.publish("orders", [Record(b"x")], retry_maybe_sent=True)

    assert broker.tries("PublishBatch") == QUICK.retry.tries_max


@pytest.mark.parametrize(
    ("rpc", "error", "again"),
    [
        ("CommitEpoch", errors.ResourceExhausted("full", reason=Reason.DISK_FULL), True),
        ("PurgeSink", errors.ResourceExhausted("full", reason=Reason.DISK_FULL), False),
        ("PurgeSink", errors.SinkNotFound("none"), False),
        ("GetSink", errors.BrokerUnavailable("fenced", reason=Reason.STORE_FENCED), True),
        ("SeekSubscription", errors.BrokerUnavailable("fenced", reason=Reason.STORE_FENCED), False),
    ],
)
def test_a_retryable_refusal_is_retried_only_where_the_rule_of_the_rpc_allows_it(
    rpc: str, error: ForebayError, again: bool
) -> None:
    assert RULES[rpc].may_retry(error) is again


def test_a_deletion_that_a_kill_of_the_broker_cut_in_two_is_brought_to_its_end() -> None:
    asked: list[sink_service_pb2.DeleteSinkRequest] = []

    def delete(request: sink_service_pb2.DeleteSinkRequest, context: grpc.ServicerContext) -> object:
        asked.append(request)
        if len(asked) == 1:
            abort(context, status(grpc.StatusCode.UNAVAILABLE, ""))
        if len(asked) == 2:
            abort(context, status(grpc.StatusCode.NOT_FOUND, "SINK_NOT_FOUND"))
        return sink_service_pb2.DeleteSinkResponse()

    def get(request: sink_service_pb2.GetSinkRequest, context: grpc.ServicerContext) -> object:
        return sink_service_pb2.GetSinkResponse(sink={"name": request.name, "incarnation": f"of {request.name}"})

    with WireFake(DeleteSink=delete, GetSink=get) as fake, fake.client() as client:
        client.sinks.delete("orders", dead_letters=True)

    named = [(request.name, request.incarnation, request.dead_letters) for request in asked]
    first = ("orders", "of orders", True)
    assert named == [first, first, ("orders.dlq", "of orders.dlq", False)]


def test_a_deletion_that_was_complete_succeeds_where_the_broker_names_another_shard() -> None:
    elsewhere = status(grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER", shard="b", endpoint="b:1")
    refusals = iter([status(grpc.StatusCode.UNAVAILABLE, ""), *repeat(elsewhere, 2)])

    def delete(request: sink_service_pb2.DeleteSinkRequest, context: grpc.ServicerContext) -> object:
        abort(context, next(refusals))
        return sink_service_pb2.DeleteSinkResponse()

    def get(request: sink_service_pb2.GetSinkRequest, context: grpc.ServicerContext) -> object:
        return sink_service_pb2.GetSinkResponse(sink={"name": request.name, "incarnation": f"of {request.name}"})

    with WireFake(DeleteSink=delete, GetSink=get) as fake, fake.client() as client:
        client.sinks.delete("orders", dead_letters=True)

    assert next(refusals, None) is None
