"""An unreachable broker is said in one sentence within two seconds, with its address and the source of that."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.contact import PATIENCE_S
from forebay.cli.exits import ExitCode
from tests.support.clients.addresses import REFUSED
from tests.support.proxies.web import WebServer

LIMIT_S = 2.0
"""Time within which a command says that no broker answers: `PATIENCE_S`, and what the machine takes."""

ATTEMPTS = 3

CALLS = (
    ["publish", "orders", "hello"],
    ["lag"],
    ["info"],
    ["tail", "orders"],
    ["replay", "orders"],
    ["sink", "delete", "orders"],
    ["dlq", "redrive", "orders"],
    ["backup", "create"],
    ["realtime", "on"],
    ["bench"],
)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOREBAY_ENDPOINT", "FOREBAY_WAIT"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def closed_port() -> Iterator[str]:
    """Yield an address that refuses connections, for as long as the block lasts."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@contextmanager
def silent_port(*, accepts: bool) -> Iterator[str]:
    """Yield an address that never answers; its queue of connections is full unless it accepts."""
    with ExitStack() as stack:
        listening = stack.enter_context(closing(socket.socket()))
        listening.bind(("127.0.0.1", 0))
        listening.listen(64 if accepts else 0)
        for _ in range(0 if accepts else 4):
            one = stack.enter_context(closing(socket.socket()))
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def said_in_time(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the messages of a command without a broker; the quickest of its runs must be in time."""
    took_s: list[float] = []
    while not took_s or (min(took_s) >= LIMIT_S and len(took_s) < ATTEMPTS):
        capsys.readouterr()
        begun = time.monotonic()
        assert run(words) == ExitCode.UNAVAILABLE
        took_s.append(time.monotonic() - begun)
    assert min(took_s) < LIMIT_S
    return capsys.readouterr().err


@pytest.mark.parametrize("typed", REFUSED)
def test_an_address_that_a_client_refuses_is_refused(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "-e", typed]) == ExitCode.USAGE
    assert "forebay: endpoint " in capsys.readouterr().err


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_command_says_at_once_that_no_broker_answers(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as endpoint:
        said = said_in_time([*words, "--endpoint", endpoint], capsys)

    assert said.startswith(f"forebay: no broker answers at {endpoint} (from --endpoint): the connection was refused; ")
    assert said.count("\n") == 1


def test_the_source_of_the_address_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as endpoint:
        monkeypatch.setenv("FOREBAY_ENDPOINT", endpoint)
        assert run(["info"]) == ExitCode.UNAVAILABLE

    assert f"at {endpoint} (from FOREBAY_ENDPOINT): " in capsys.readouterr().err


def test_an_address_that_does_not_react_is_unreachable(capsys: pytest.CaptureFixture[str]) -> None:
    with silent_port(accepts=False) as endpoint:
        said = said_in_time(["publish", "orders", "hello", "-e", endpoint], capsys)

    assert f"no broker answers at {endpoint} (from --endpoint): no answer" in said


def test_members_of_a_fleet_that_do_not_react_are_unreachable_together(capsys: pytest.CaptureFixture[str]) -> None:
    with silent_port(accepts=False) as one, silent_port(accepts=False) as other, closed_port() as closed:
        fleet = f"forebay://{one},{closed},{other}"
        said = said_in_time(["lag", "-e", fleet], capsys)

    assert said.startswith(f"forebay: no broker answers at {fleet} (from --endpoint): ")
    assert said.count("\n") == 1


def test_a_member_of_a_fleet_that_answers_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    with silent_port(accepts=False) as away, BrokerServer.in_memory() as broker:
        assert run(["lag", "-e", f"forebay://{away},{broker.endpoint}"]) == ExitCode.USAGE

    assert "has no journal, so it is of no fleet" in capsys.readouterr().err


def test_a_member_of_a_fleet_that_is_no_broker_is_said_where_none_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as away, WebServer(404) as foreign:
        assert run(["lag", "-e", f"forebay://{away},{foreign}"]) == ExitCode.UNAVAILABLE

    assert f"the server at {foreign} (from --endpoint) is no Forebay broker: " in capsys.readouterr().err


def test_a_socket_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "-e", f"unix:{tmp_path}/broker"]) == ExitCode.UNAVAILABLE
    assert "the socket does not exist" in capsys.readouterr().err


def test_a_broker_that_accepts_and_is_busy_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from forebay.cli.contact import BrokerUnreachable, reach
    from forebay.client import Client, ClientSettings

    with silent_port(accepts=True) as endpoint, Client(endpoint, settings=ClientSettings()) as client:
        try:
            reach(client)
        except BrokerUnreachable as error:
            pytest.fail(str(error))

    assert f"the broker at {endpoint} accepts connections, but has not answered for" in capsys.readouterr().err


def test_a_script_may_wait_for_a_broker_that_starts(capsys: pytest.CaptureFixture[str]) -> None:
    from threading import Thread

    with closed_port() as endpoint:
        pass  # free again, for the broker below
    ended: list[int] = []
    asking = Thread(target=lambda: ended.append(run(["sink", "list", "-e", endpoint, "--wait", "1m"])))
    asking.start()
    with BrokerServer.in_memory(listen=endpoint):
        asking.join(60)

    assert ended == [ExitCode.OK]


def test_a_limit_that_is_given_is_kept_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    def took_s(limit: str) -> float:
        begun = time.monotonic()
        assert run(["info", "-e", endpoint, "--wait", limit]) == ExitCode.UNAVAILABLE
        return time.monotonic() - begun

    with closed_port() as endpoint:
        short_s = took_s("100ms")
        assert f"at {endpoint} (from --endpoint) within 100 ms: " in capsys.readouterr().err
        long_s = took_s("3s")
        assert f"at {endpoint} (from --endpoint) within 3.0 s: " in capsys.readouterr().err

    assert short_s < long_s
    assert long_s > PATIENCE_S, "it ends before a further attempt would pass the limit"


def test_of_several_brokers_only_that_of_the_sink_is_needed(
    broker_of_orders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    both, away = broker_of_orders
    assert run(["sink", "create", "orders", "-e", both]) == ExitCode.OK
    capsys.readouterr()

    assert run(["sink", "list", "-e", both]) == ExitCode.UNAVAILABLE
    assert f"no broker answers at {away} " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["lag"], ["publish", "orders", "x"]], ids=" ".join)
def test_the_port_of_the_console_is_said_to_be_no_broker(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerServer.in_memory(console_listen="127.0.0.1:0") as broker:
        assert broker.serving is not None
        endpoint = urlsplit(broker.serving.console_url).netloc
        assert run([*words, "-e", endpoint]) == ExitCode.UNAVAILABLE

    said = capsys.readouterr().err
    assert f"the server at {endpoint} (from --endpoint) is no Forebay broker: it does not speak HTTP/2; name " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("status", "is_broker"), [(404, False), (400, False), (503, True)])
def test_a_web_server_that_speaks_http_2_is_no_broker_and_a_proxy_may_be_in_front_of_one(
    status: int, is_broker: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with WebServer(status) as endpoint:
        assert run(["lag", "-e", endpoint]) == ExitCode.UNAVAILABLE

    said = capsys.readouterr().err
    assert ("no broker answers at" if is_broker else "is no Forebay broker: it answers HTTP status") in said
    assert f"{endpoint} (from --endpoint)" in said
    assert f"status {status}" in said or f"status: {status}" in said
    assert said.count("\n") == 1


def test_a_grpc_server_of_something_else_is_no_broker(capsys: pytest.CaptureFixture[str]) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        assert run(["info", "-e", endpoint]) == ExitCode.UNAVAILABLE
    finally:
        server.stop(None).wait()

    assert "is no Forebay broker: it does not know the calls of a broker; " in capsys.readouterr().err


@pytest.fixture
def broker_of_orders() -> Iterator[tuple[str, str]]:
    """Two endpoints, of which the one of the sink ``orders`` answers; and the other one."""
    from forebay.client.transport.rendezvous import endpoint_of

    with BrokerServer.in_memory() as broker, ExitStack() as stack:
        while True:
            away = stack.enter_context(closed_port())
            if endpoint_of("orders", (broker.endpoint, away)) == broker.endpoint:
                yield f"{away},{broker.endpoint}", away
                return
