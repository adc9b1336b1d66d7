"""Endpoints as typed: a missing port is that of a broker, and what cannot be an endpoint is refused by name."""

from __future__ import annotations

import pytest

from forebay.client import Client, ClientSettings
from forebay.client.transport.channel import Channels
from forebay.client.transport.endpoint import as_endpoints, canonical, fleet_members, server_of, with_port
from forebay.client.transport.security import channel_of, open_channel
from forebay.errors.reasons import Reason
from tests.support.clients.addresses import ACCEPTED, REFUSED
from tests.support.refusals import failure


@pytest.mark.parametrize(
    ("typed", "endpoint"),
    [
        ("broker.example", "broker.example:7461"),
        (" broker ", "broker:7461"),
        ("bücher.example", "bücher.example:7461"),
        ("10.0.0.1", "10.0.0.1:7461"),
        ("[::1]", "[::1]:7461"),
        ("::1", "[::1]:7461"),
        ("fe80::1%eth0", "[fe80::1%eth0]:7461"),
        ("::1:1", "[::1:1]:7461"),
        ("dns:broker", "dns:broker:7461"),
        ("dns:///broker", "dns:///broker:7461"),
        ("dns://10.0.0.53/broker", "dns://10.0.0.53/broker:7461"),
        ("ipv4:10.0.0.1", "ipv4:10.0.0.1:7461"),
        ("ipv6:[::1]", "ipv6:[::1]:7461"),
        ("ipv4:10.0.0.1,10.0.0.2:1", "ipv4:10.0.0.1:7461,10.0.0.2:1"),
    ],
)
def test_a_missing_port_is_that_of_a_broker(typed: str, endpoint: str) -> None:
    assert with_port(typed) == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        *("h:1", "h:65535", "h.:1", "127.0.0.1:7461", "[::1]:1", "bücher.de:1"),
        *("unix:/run/broker", "unix:///run/broker", "unix:broker", "unix-abstract:name", "vsock:2:7461"),
        *("dns:///h:1", "dns://10.0.0.53/h:1", "dns:h:1", "ipv4:10.0.0.1:1", "ipv6:[::1]:1", "xds:///brokers"),
    ],
)
def test_an_endpoint_with_a_port_stays_as_it_was_typed(endpoint: str) -> None:
    assert with_port(endpoint) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        *((one, "the port must be 1 to 65535") for one in ("h:", "h:0", "h:65536", "h:99999999999", "h:x", "[::1]:0")),
        *((one, "the host must be") for one in (":1", "a..b:1", f"{'x' * 64}.de:1", "a b", "user@h:1", "h/path")),
        *((one, "the host must be") for one in ("dns:///a..b:1", "dns:")),
        *((one, r"must be \[ADDRESS\]") for one in ("[::1", "[h]:1", "[::1]1", "a:b:1", "::x")),
        *((f"{one}://h:1", f"without {one}://") for one in ("http", "https", "grpc")),
        *((one, "the path of the socket is missing") for one in ("unix:", "unix:///")),
    ],
)
def test_an_invalid_endpoint_is_refused_with_the_problem(endpoint: str, said: str) -> None:
    with failure(Reason.INVALID_SETTING, match=said):
        with_port(endpoint)


@pytest.mark.parametrize(("typed", "endpoints"), ACCEPTED.items())
def test_an_address_has_one_form_and_a_client_uses_it(typed: str, endpoints: tuple[str, ...]) -> None:
    assert canonical(typed) == canonical(",".join(endpoints)) == endpoints
    channels = Channels(typed, ClientSettings())
    assert channels.endpoints == Channels(",".join(endpoints), ClientSettings()).endpoints
    assert (channels.fleet is None) == (not endpoints[0].startswith("forebay://"))


@pytest.mark.parametrize("typed", REFUSED)
def test_an_address_that_names_no_broker_is_refused(typed: str) -> None:
    with failure(Reason.INVALID_SETTING):
        Channels(typed, ClientSettings())


def test_members_of_a_fleet_are_after_its_scheme() -> None:
    for given in ("forebay://one,two:2", ["forebay://one, two:2"], " forebay://one,two:2/"):
        assert fleet_members(given) == ("one:7461", "two:2")
    for given in ("one,two:2", ["one", "two:2"], "dns:///one"):
        assert fleet_members(given) is None


@pytest.mark.parametrize("given", ["forebay://one,forebay://two", ["forebay://one", "two"], "one,forebay://two"])
def test_an_address_of_a_fleet_is_one_address(given: str | list[str]) -> None:
    with failure(Reason.INVALID_SETTING, match="forebay:// begins one address"):
        as_endpoints(members if (members := fleet_members(given)) is not None else given)


def test_several_endpoints_are_a_list_or_separated_by_commas() -> None:
    assert as_endpoints("one, two:2") == as_endpoints(["one", "two:2"]) == ("one:7461", "two:2")
    assert as_endpoints("one,one:7461") == ("one:7461",)
    for empty in ("", " ", [], ["one", ""], "one,,two"):
        with failure(Reason.INVALID_SETTING, match="must be at least one HOST:PORT"):
            as_endpoints(empty)


@pytest.mark.parametrize(
    ("typed", "endpoints"),
    [
        ("ipv4:10.0.0.1:1,10.0.0.2:2", ("ipv4:10.0.0.1:1,10.0.0.2:2",)),
        ("ipv4:10.0.0.1, 10.0.0.2 ,broker", ("ipv4:10.0.0.1:7461,10.0.0.2:7461", "broker:7461")),
        ("ipv4:10.0.0.1,ipv4:10.0.0.2", ("ipv4:10.0.0.1:7461", "ipv4:10.0.0.2:7461")),
        ("ipv6:[::1]:1,[::2]:2,::3", ("ipv6:[::1]:1,[::2]:2,[::3]:7461",)),
        ("ipv6:[::1]:1,10.0.0.2:2", ("ipv6:[::1]:1", "10.0.0.2:2")),
        ("10.0.0.1,10.0.0.2", ("10.0.0.1:7461", "10.0.0.2:7461")),
    ],
)
def test_addresses_that_follow_one_with_a_scheme_of_addresses_belong_to_its_endpoint(
    typed: str, endpoints: tuple[str, ...]
) -> None:
    assert as_endpoints(typed) == endpoints


def test_a_client_names_the_port_that_it_uses() -> None:
    with Client("broker.example", settings=ClientSettings()) as client:
        assert client.endpoints == ("broker.example:7461",)
    assert Channels("::1", ClientSettings()).endpoints == ("[::1]:7461",)


def test_a_call_to_a_named_endpoint_uses_the_same_port() -> None:
    asked: list[str] = []

    class Library:
        def insecure_channel(self, endpoint: str, options: object) -> None:
            asked.append(endpoint)

    channel_of(Library(), "127.0.0.1", ClientSettings(), [])
    assert asked == ["127.0.0.1:7461"]
    with failure(Reason.INVALID_SETTING):
        open_channel("h:x", ClientSettings(), [])


@pytest.mark.parametrize(
    ("endpoint", "address", "port"),
    [
        ("broker.example:7461", "broker.example", 7461),
        ("[::1]:7461", "::1", 7461),
        ("dns:///broker.example:7461", "broker.example", 7461),
        ("dns://8.8.8.8/broker.example:7461", "broker.example", 7461),
        ("ipv4:10.0.0.1:7461,10.0.0.2:7461", "10.0.0.1", 7461),
        ("unix:/run/forebay.sock", "/run/forebay.sock", None),
        ("xds:///brokers", "///brokers", None),
    ],
)
def test_an_endpoint_is_an_address_and_a_port_of_telemetry(endpoint: str, address: str, port: int | None) -> None:
    expected = {"server.address": address} | ({} if port is None else {"server.port": port})

    assert server_of(endpoint) == expected
