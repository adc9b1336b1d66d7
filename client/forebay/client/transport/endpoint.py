"""Endpoints as typed by users: a host, ``HOST:PORT``, ``[::1]:PORT``, ``unix:PATH``, ``dns:NAME``.

``ipv4:ADDRESS:PORT,ADDRESS:PORT`` is one endpoint with several addresses, of which the first that accepts a
connection is used. ``forebay://HOST:PORT,...`` names members of a fleet of shards, see ``shards.fleet``. A missing
port is that of a broker, never the port that gRPC assumes. An endpoint with a port stays as it was typed: clients map
sinks to brokers by its text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from forebay.client.errors import InvalidArgument
from forebay.errors.reasons import Reason

DEFAULT_PORT: Final = 7461
"""Port of a broker."""

PORT_MAX: Final = 65_535

FLEET: Final = "forebay://"
"""Scheme of an address that names members of a fleet of shards."""

_UNCHANGED: Final = ("unix-abstract", "vsock", "xds")
"""Schemes of gRPC that are passed on as they are."""

_RESOLVED: Final = ("dns", "ipv4", "ipv6")
"""Schemes of gRPC that are followed by a host and a port."""


_ADDRESSES: Final = {"ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address}
"""Schemes of gRPC that are followed by one or more addresses."""


def with_port(endpoint: str) -> str:
    """Return an endpoint with its port. Raises ``INVALID_SETTING`` for an invalid host or port."""
    text = endpoint.strip()
    scheme, colon, rest = text.partition(":")
    if colon and scheme in _UNCHANGED:
        return text
    if colon and scheme == "unix":
        if not rest.strip("/"):
            raise _invalid(endpoint, "the path of the socket is missing")
        return text
    if colon and scheme in _ADDRESSES:
        return f"{scheme}:" + ",".join(_host_and_port(endpoint, one.strip()) for one in rest.split(","))
    if colon and scheme in _RESOLVED:
        # dns://AUTHORITY/HOST names the name server.
        split = rest.find("/", 2) + 1 if rest.startswith("//") else 0
        return f"{scheme}:{rest[:split]}{_host_and_port(endpoint, rest[split:])}"
    if text.startswith(FLEET):
        raise _invalid(endpoint, f"{FLEET} begins one address of all members, {FLEET}HOST:PORT,HOST:PORT")
    if "://" in text:
        raise _invalid(endpoint, f"must be HOST:PORT, without {scheme}://")
    return _host_and_port(endpoint, text)


def server_of(endpoint: str) -> dict[str, str | int]:
    """Return an endpoint as the attributes ``server.address`` and ``server.port`` of spans and metrics.

    Of several addresses it is the first one; a socket has its path and no port.
    """
    scheme, _, rest = endpoint.partition(":")
    if scheme in _UNCHANGED or scheme == "unix":
        return {"server.address": rest}
    named = (rest if scheme in _RESOLVED else endpoint).rpartition("/")[2].partition(",")[0]
    host, colon, port = named.rpartition(":")
    if not (colon and port.isdecimal()):
        return {"server.address": named}
    return {"server.address": host.strip("[]"), "server.port": int(port)}


def canonical(endpoint: str | Iterable[str]) -> tuple[str, ...]:
    """Return the endpoints of a client as they are used; the address of a fleet is one of them.

    Client, commands and Spark accept the same ones. Raises ``INVALID_SETTING``.
    """
    given = endpoint if isinstance(endpoint, str) else tuple(endpoint)
    members = fleet_members(given)
    return as_endpoints(given) if members is None else (f"{FLEET}{','.join(members)}",)


def fleet_members(endpoint: str | Iterable[str]) -> tuple[str, ...] | None:
    """Return the members of a fleet, `forebay://HOST:PORT,...`; None for endpoints without that scheme.

    As in other URLs, a slash may follow them.
    """
    given = [endpoint] if isinstance(endpoint, str) else list(endpoint)
    if len(given) != 1 or not given[0].strip().startswith(FLEET):
        return None
    return as_endpoints(given[0].strip().removeprefix(FLEET).rstrip("/"))


def as_endpoints(endpoint: str | Iterable[str]) -> tuple[str, ...]:
    """Return the endpoints of a client: one string, several, or one comma-separated string."""
    several = separate(endpoint) if isinstance(endpoint, str) else list(endpoint)
    if not several or not all(one.strip() for one in several):
        given = "is empty" if not any(one.strip() for one in several) else f"= {','.join(several)!r} has an empty part"
        raise InvalidArgument(
            f"endpoint {given}: must be at least one HOST:PORT, separated by commas",
            reason=Reason.INVALID_SETTING,
            facts={"field": "endpoint"},
        )
    return tuple(dict.fromkeys(with_port(one) for one in several))


def separate(text: str) -> list[str]:
    """Return the endpoints of a comma-separated string, as they were typed.

    Addresses that follow one with ``ipv4:`` or ``ipv6:`` belong to it, and members of a fleet to their address.
    """
    if text.strip().startswith(FLEET):
        return [text]
    found: list[str] = []
    for part in text.split(","):
        if found and _is_address(part.strip(), found[-1].strip().partition(":")[0]):
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def _is_address(text: str, scheme: str) -> bool:
    kind = _ADDRESSES.get(scheme)
    if kind is None:
        return False
    host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    for address in (host, text):
        try:
            kind(address)
        except ValueError:
            continue
        return True
    return False


def _host_and_port(endpoint: str, text: str) -> str:
    host, rest = _divided(endpoint, text)
    if not rest:
        return f"{host}:{DEFAULT_PORT}"
    port = rest[1:]
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= PORT_MAX):
        raise _invalid(endpoint, f"the port must be 1 to {PORT_MAX}")
    return text


def _divided(endpoint: str, text: str) -> tuple[str, str]:
    """Return the host, an IPv6 address in brackets, and the rest: empty, or the port with its colon."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_ipv6(address) or rest[:1] not in ("", ":"):
            raise _invalid(endpoint, "an IPv6 address must be [ADDRESS] or [ADDRESS]:PORT")
        return f"[{address}]", rest
    if text.count(":") > 1:
        if not _is_ipv6(text):
            raise _invalid(endpoint, "an IPv6 address must be [ADDRESS] or [ADDRESS]:PORT")
        return f"[{text}]", ""
    host, colon, port = text.partition(":")
    try:
        host.rstrip(".").encode("idna")
        is_name = bool(host.strip(".")) and not any(letter.isspace() or letter in "/@?#[]" for letter in host)
    except UnicodeError:
        is_name = False
    if not is_name:
        raise _invalid(endpoint, "the host must be a name or address, with parts of 1 to 63 characters between dots")
    return host, colon + port


def _is_ipv6(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


def _invalid(endpoint: str, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"endpoint = {endpoint!r}: {problem}",
        reason=Reason.INVALID_SETTING,
        facts={"field": "endpoint", "value": endpoint, "allowed": "HOST or HOST:PORT"},
    )
