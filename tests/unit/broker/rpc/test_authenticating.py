"""Who brings a known token is let through; the others are turned away before their request is looked at."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import pytest

from holdfast.broker.core.tokens import TOKEN_BYTES_MAX, hash_of, parse
from holdfast.broker.rpc.authenticating import TOLD_S, TokenInterceptor

KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Call(NamedTuple):
    """What gRPC tells an interceptor of a call."""

    method: str
    invocation_metadata: Sequence[tuple[str, str | bytes]] | None


class Aborted(Exception):
    """What ``abort`` ends a call with."""


class Context:
    """As much of gRPC's context as is used."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        raise Aborted(code, details)


async def handler_of(
    interceptor: TokenInterceptor, metadata: Sequence[tuple[str, str | bytes]] | None, *, method: str, kind: str
) -> tuple[Any, Any]:
    """Return the handler of a call and the one that there is without the interceptor."""
    own = getattr(grpc, f"{kind}_rpc_method_handler")(lambda request, context: None, bytes.decode, str.encode)

    async def continuation(call: Call) -> Any:
        return own

    return await interceptor.intercept_service(continuation, Call(method, metadata)), own


def guarded(*tokens: str, clock: Clock | None = None) -> TokenInterceptor:
    lines = "\n".join(hash_of("tests", token).line for token in tokens)
    return TokenInterceptor(parse(lines), clock or Clock())


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["Bearer known", "bearer known", "Bearer  known "])
async def test_a_known_token_is_let_through(kind: str, value: str) -> None:
    found, own = await handler_of(guarded("known"), [("authorization", value)], method="/holdfast.v1.X/Y", kind=kind)

    assert found is own


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
        ([("authorization", "Bearer wrong")], "not known"),
        ([("authorization", "Bearer ")], "not known"),
        ([("authorization", f"Bearer {'x' * (TOKEN_BYTES_MAX + 1)}")], "not known"),
    ],
)
async def test_every_other_call_is_refused_by_a_handler_of_its_kind_that_decodes_nothing(
    kind: str, metadata: Sequence[tuple[str, str | bytes]] | None, said: str
) -> None:
    found, own = await handler_of(guarded("known"), metadata, method="/holdfast.v1.X/Y", kind=kind)

    assert (found.request_streaming, found.response_streaming) == (own.request_streaming, own.response_streaming)
    assert found.request_deserializer is None
    with pytest.raises(Aborted) as refusal:
        await getattr(found, kind)(b"", Context())
    code, text = refusal.value.args
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert said in text
    assert "wrong" not in text


@pytest.mark.anyio
async def test_health_is_open_and_reflection_is_not() -> None:
    health, own = await handler_of(guarded("known"), [], method="/grpc.health.v1.Health/Check", kind="unary_unary")
    reflection, other = await handler_of(
        guarded("known"), [], method="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kind=KINDS[3]
    )

    assert health is own
    assert reflection is not other


@pytest.mark.anyio
async def test_what_was_renewed_counts_from_the_next_call_on() -> None:
    interceptor = guarded("old")
    interceptor.renew(parse(hash_of("tests", "new").line))

    old, own = await handler_of(interceptor, [("authorization", "Bearer old")], method="/a/b", kind="unary_unary")
    new, other = await handler_of(interceptor, [("authorization", "Bearer new")], method="/a/b", kind="unary_unary")

    assert old is not own
    assert new is other


@pytest.mark.anyio
async def test_a_burst_of_refusals_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    interceptor = guarded("known", clock=clock)

    async def refuse() -> None:
        found, _ = await handler_of(interceptor, [], method="/holdfast.v1.X/Y", kind="unary_unary")
        with pytest.raises(Aborted):
            await found.unary_unary(b"", Context())

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await refuse()
        clock.now_s += TOLD_S
        await refuse()

    assert [record.getMessage() for record in caplog.records] == [
        "calls were refused count=1 token=missing method=/holdfast.v1.X/Y peer=ipv4:192.0.2.1:1",
        "calls were refused count=3 token=missing method=/holdfast.v1.X/Y peer=ipv4:192.0.2.1:1",
    ]
