"""Access to the console: hosts that a browser may name, and tokens of a broker that demands them.

A page of another site can make a browser send requests to a server on this machine, under a name of its own that
resolves to 127.0.0.1. So a console on the loopback interface answers to the names of loopback only.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.core.access.credentials import TOKEN_BYTES_MAX, Credentials, proof_of
from forebay.broker.core.access.principal import Principal, Right, anonymous

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Forebay: any name, and a token as the password", charset="UTF-8"'}


class Access:
    """Rights of the users of one console."""

    def __init__(self, credentials: Callable[[], Credentials | None], host: str) -> None:
        """``credentials`` are the broker's at this time, None if it demands none; ``host`` is the bound one."""
        self._credentials = credentials
        self._hosts = LOOPBACK if host in LOOPBACK or host.startswith("127.") else None

    def admit(self, request: Request) -> Principal:
        """Return the principal of a request that may see something. Raises ``HTTPException``."""
        name = request.headers.get("host", "").lower()
        host = name.rpartition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
        if self._hosts is not None and host not in self._hosts:
            raise HTTPException(421, "This console answers to localhost only. Open it as http://localhost:PORT.")
        credentials = self._credentials()
        if credentials is None:
            return anonymous()
        token = _token(request.headers.get("authorization", ""))
        principal = credentials.principal_of(proof_of(token)) if token else None
        if principal is None:
            raise HTTPException(401, "This broker demands a token: enter it as the password.", CHALLENGE)
        if not principal.may_somewhere(Right.VIEW):
            raise HTTPException(403, f"The principal {principal.name} may see no sink.")
        return principal


def _token(header: str) -> str:
    """Return the token of an ``Authorization`` header, Bearer or the password of Basic, or nothing."""
    scheme, _, value = header.partition(" ")
    if len(value) > 2 * TOKEN_BYTES_MAX:
        return ""
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
