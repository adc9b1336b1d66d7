"""A call is authenticated before its request is decoded, and refused before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import grpc
import pytest

from forebay.broker.core.access.credentials import TOKEN_BYTES_MAX, parse, token_credential
from forebay.broker.core.access.principal import Limits, anonymous
from forebay.broker.rpc.access.authorizer import Authorizer
from forebay.broker.rpc.access.guard import AccessGuard
from forebay.broker.rpc.access.open_call import Rates
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2 as pb
from tests.support.refusals import refusal

KINDS = ("unary_unary", "unary_stream", "stream_stream")
GET: str = "/forebay.v1.SinkService/GetSink"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Call(NamedTuple):
    """Details of a call as gRPC passes them to an interceptor."""

    method: str
    invocation_metadata: Sequence[tuple[str, str | bytes]] | None


class Aborted(Exception):
    """End of a call by ``abort``."""


class Context:
    """The part of gRPC's context that is used."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        raise Aborted(code, details)


async def handler_of(
    guard: AccessGuard,
    metadata: Sequence[tuple[str, str | bytes]] | None,
    *,
    method: str = GET,
    kind: str = "unary_unary",
    controlled: bool = True,
) -> tuple[Any, Any]:
    """Return the handler of a call and the handler behind the guard."""

    async def behaviour(request: Any, context: Any) -> Any:
        return request

    own = getattr(grpc, f"{kind}_rpc_method_handler")(
        behaviour, pb.GetSinkRequest.FromString, pb.GetSinkRequest.SerializeToString
    )

    async def service(call: Call) -> Any:
        return own

    async def authorizer(call: Call) -> Any:
        return await Authorizer(controlled=controlled).intercept_service(service, call)

    return await guard.intercept_service(authorizer, Call(method, metadata)), own


def guarded(*tokens: str, rights: str = "admin=*") -> AccessGuard:
    lines = "\n".join(token_credential("tests", token, rights.split()).line for token in tokens)
    return AccessGuard(parse(lines), lambda: 100.0)


@pytest.mark.anyio
@pytest.mark.parametrize("value", ["Bearer known", "bearer known", "Bearer  known "])
async def test_a_known_token_gets_an_answer(value: str) -> None:
    found, _ = await handler_of(guarded("known"), [("authorization", value)])

    request = pb.GetSinkRequest(name="orders")
    assert await found.unary_unary(request, Context()) is request


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, "no token"),
        ([], "no token"),
        ([("authorization", "known")], "no token"),
        ([("authorization", "Basic known")], "no token"),
        ([("authorization-bin", b"Bearer known")], "no token"),
        ([("authorization", "Bearer wrong")], "unknown token"),
        ([("authorization", "Bearer ")], "unknown token"),
        ([("authorization", f"Bearer {'x' * (TOKEN_BYTES_MAX + 1)}")], "unknown token"),
    ],
)
async def test_every_other_call_is_refused_by_a_handler_that_reads_nothing(
    kind: str, metadata: Sequence[tuple[str, str | bytes]] | None, said: str
) -> None:
    found, _ = await handler_of(guarded("known"), metadata, kind=kind)

    assert (found.request_streaming, found.response_streaming) == (True, True)  # gRPC reads no request of such a call
    assert found.request_deserializer is None
    with pytest.raises(Aborted) as refusal:
        await found.stream_stream(None, Context())
    code, text = refusal.value.args
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert said in text
    assert "wrong" not in text


@pytest.mark.anyio
async def test_a_known_token_without_the_right_is_denied_with_the_right_and_the_sink() -> None:
    found, _ = await handler_of(guarded("known", rights="publish=events"), [("authorization", "Bearer known")])

    with pytest.raises(Aborted) as refusal:
        await found.unary_unary(pb.GetSinkRequest(name="orders"), Context())

    code, text = refusal.value.args
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "'tests' does not have the right 'view' to sink 'orders'" in text


@pytest.mark.anyio
async def test_health_is_open_and_reflection_is_not() -> None:
    health, own = await handler_of(guarded("known"), [], method="/grpc.health.v1.Health/Check")
    reflection, other = await handler_of(
        guarded("known"),
        [],
        method="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        kind="stream_stream",
    )

    assert health is own
    assert reflection is not other


@pytest.mark.anyio
async def test_renewed_credentials_count_from_the_next_call_on() -> None:
    guard = guarded("old")
    guard.renew(parse(token_credential("tests", "new", ["admin=*"]).line))

    old, _ = await handler_of(guard, [("authorization", "Bearer old")])
    new, _ = await handler_of(guard, [("authorization", "Bearer new")])

    with pytest.raises(Aborted):
        await old.stream_stream(None, Context())
    assert await new.unary_unary(pb.GetSinkRequest(), Context()) == pb.GetSinkRequest()


@pytest.mark.anyio
async def test_without_credentials_the_data_path_is_not_touched_and_managing_calls_are_audited() -> None:
    guard = AccessGuard(None, lambda: 100.0)

    publish, own = await handler_of(guard, [], method="/forebay.v1.BufferService/PublishBatch", controlled=False)
    purge, other = await handler_of(guard, [], method="/forebay.v1.SinkService/PurgeSink", controlled=False)

    assert publish is own
    assert purge is not other


@pytest.mark.anyio
async def test_a_principal_over_its_rate_is_refused_with_the_time_to_wait() -> None:
    guard = guarded("known", rights="admin=* bytes_per_s=10")
    found, _ = await handler_of(guard, [("authorization", "Bearer known")])
    await found.unary_unary(pb.GetSinkRequest(name="x" * 100), Context())

    with pytest.raises(Aborted) as refusal:
        await found.unary_unary(pb.GetSinkRequest(), Context())

    assert refusal.value.args[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "bytes_per_s is 10" in refusal.value.args[1]


@pytest.mark.anyio
async def test_refusals_are_counted_by_what_the_caller_is_known_by_and_never_by_its_name() -> None:
    counted: list[tuple[str, str]] = []
    lines = token_credential("tests", "known", ["publish=events"]).line
    guard = AccessGuard(parse(lines), lambda: 100.0, lambda caller, reason: counted.append((caller, reason)))

    for token in ("wrong", "known"):
        found, _ = await handler_of(guard, [("authorization", f"Bearer {token}")])
        call = found.stream_stream if token == "wrong" else found.unary_unary
        with pytest.raises(Aborted):
            await call(pb.GetSinkRequest(name="orders"), Context())

    assert counted == [("unknown", "TOKEN_REFUSED"), ("token", "PERMISSION_DENIED")]


@pytest.mark.anyio
async def test_a_call_over_a_rate_limit_is_counted() -> None:
    counted: list[str] = []
    principal = replace(anonymous("tests"), limits=Limits(calls_per_s=1))
    rates = Rates(principal, lambda: 100.0, counted.append)
    for _ in range(10):
        rates.charge(pb.GetSinkRequest())

    with refusal(Reason.RATE_LIMITED):
        await rates.wait_or_refuse()

    assert counted == ["RATE_LIMITED"]
