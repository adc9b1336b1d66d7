"""Which tokens a broker takes.

Only hashes are kept, so whoever reads the file or this process's memory can call nothing. A token is random and long:
one round of SHA-256 is enough, and a call costs no more than that.

A file of hashes has one line per token, `NAME:sha256:HEX`. A name may stand twice, so that a token can be changed
without an interruption: add the new line, let the callers take the new token, take the old line out. Empty lines and
lines that begin with `#` say nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final

TOKENS_MAX: Final = 1_000
"""A call is compared with every hash, so there is a bound."""

TOKEN_BYTES_MAX: Final = 4_096
_LINE: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63}):sha256:(?P<hash>[0-9a-fA-F]{64})")


class TokenHashesInvalid(ValueError):
    """A file of hashes is wrong. The text names the line and never its content, which may be a token."""


@dataclass(frozen=True, slots=True)
class TokenHash:
    """One token that is taken."""

    name: str
    """Whose it is."""

    digest: bytes
    """SHA-256 of the token."""

    @property
    def line(self) -> str:
        """As it stands in a file."""
        return f"{self.name}:sha256:{self.digest.hex()}"


@dataclass(frozen=True, slots=True)
class TokenHashes:
    """All tokens that are taken."""

    every: tuple[TokenHash, ...]
    """At least one."""

    def name_of(self, token: str) -> str | None:
        """Return whose token it is; None where nobody's. Takes as long for one as for the other."""
        digest = _digest(token)
        found: str | None = None
        for one in self.every:
            if compare_digest(one.digest, digest):
                found = one.name
        return found


def hash_of(name: str, token: str) -> TokenHash:
    """Return what is kept of a token. Raises `TokenHashesInvalid` for a name that cannot stand in a file."""
    made = TokenHash(name, _digest(token))
    if not _LINE.fullmatch(made.line):
        raise TokenHashesInvalid(f"the name {name!r} is not 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
    return made


def parse(text: str) -> TokenHashes:
    """Read a file of hashes. Raises `TokenHashesInvalid`."""
    every: list[TokenHash] = []
    for number, line in enumerate(text.splitlines(), start=1):
        given = line.strip()
        if not given or given.startswith("#"):
            continue
        match = _LINE.fullmatch(given)
        if match is None:
            raise TokenHashesInvalid(f"line {number} is not NAME:sha256:HEX with 64 hexadecimal digits")
        every.append(TokenHash(match["name"], bytes.fromhex(match["hash"])))
    if not every:
        raise TokenHashesInvalid("there is no token in it; `holdfast token` makes one")
    if len(every) > TOKENS_MAX:
        raise TokenHashesInvalid(f"{len(every)} tokens are more than {TOKENS_MAX}")
    return TokenHashes(tuple(every))


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
