"""Credentials that a broker accepts, and the file that lists them.

Only hashes of tokens are kept: the file and the memory of the broker are of no use to a reader. A token is random and
long, so one round of SHA-256 is enough.

One line per credential:

    NAME:sha256:HEX RIGHT=PATTERN[,PATTERN...]... [calls_per_s=N] [bytes_per_s=N]
    NAME:cert:IDENTITY RIGHT=PATTERN...

`NAME` is the principal and may occur more than once, so that a token can be replaced without an interruption.
`IDENTITY` is a subject alternative name, or the common name, of a client certificate. Empty lines and lines that begin
with `#` are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from forebay.broker.core.access.principal import PATTERN, Grant, Limits, Principal, Right

CREDENTIALS_MAX: Final = 1_000
"""A token is compared with every hash, so their number is bounded."""

TOKEN_BYTES_MAX: Final = 4_096
RATE_MAX: Final = 1 << 40
GRANTS_MAX: Final = 256
"""Rights in one line."""

_CREDENTIAL: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63}):(?:sha256:(?P<hash>[0-9a-fA-F]{64})|cert:(?P<identity>\S{1,255}))"
)
_LIMITS: Final = ("calls_per_s", "bytes_per_s")


class CredentialsInvalid(ValueError):
    """The file is wrong. The text names the line and never a token or a hash."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One way to prove to be a principal: a token or a certificate."""

    principal: Principal
    digest: bytes = b""
    """SHA-256 of a token; empty for a certificate."""

    identity: str = ""
    """Name in a client certificate; empty for a token."""

    @property
    def line(self) -> str:
        """Return the line of the file."""
        return " ".join([self.proof, *rights_text(self.principal), *limits_text(self.principal)])

    @property
    def proof(self) -> str:
        """Return the first word of the line."""
        return f"{self.principal.name}:" + (f"sha256:{self.digest.hex()}" if self.digest else f"cert:{self.identity}")


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof of a call: the hash of its token, or the names in its certificate."""

    digest: bytes = b""
    identities: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """Kind of proof: ``token``, ``certificate`` or ``nothing``."""
        if self.digest:
            return "token"
        return "certificate" if self.identities else "nothing"


def proof_of(token: str | None, identities: frozenset[str] = frozenset()) -> Proof:
    """Return the proof of a call; a token goes before a certificate."""
    return Proof(identities=identities) if token is None else Proof(digest=_digest(token))


@dataclass(frozen=True, slots=True)
class Credentials:
    """All credentials that a broker accepts; at least one."""

    every: tuple[Credential, ...]

    @property
    def certificates(self) -> bool:
        """True if a certificate can be a credential."""
        return any(one.identity for one in self.every)

    def principal_of(self, proof: Proof) -> Principal | None:
        """Return the principal that a proof belongs to, or None. Takes the same time for every token."""
        if not proof.digest:
            named = (one.principal for one in self.every if one.identity and one.identity in proof.identities)
            return next(named, None)
        found: Principal | None = None
        for one in self.every:
            if compare_digest(one.digest, proof.digest):
                found = one.principal
        return found


def token_credential(name: str, token: str, rights: Iterable[str]) -> Credential:
    """Return the credential of a token. ``rights`` are words of a line. Raises `CredentialsInvalid`."""
    return _checked(Credential(_principal(name, list(rights)), digest=_digest(token)))


def certificate_credential(name: str, identity: str, rights: Iterable[str]) -> Credential:
    """Return the credential of a client certificate. Raises `CredentialsInvalid`."""
    return _checked(Credential(_principal(name, list(rights)), identity=identity))


def parse(text: str) -> Credentials:
    """Parse the file. Raises `CredentialsInvalid`."""
    found = (_credential(number, line) for number, line in enumerate(text.splitlines(), start=1))
    every = [one for one in found if one is not None]
    if not every:
        raise CredentialsInvalid("there is no credential in it; `forebay token create` adds one")
    if len(every) > CREDENTIALS_MAX:
        raise CredentialsInvalid(f"{len(every)} credentials are more than {CREDENTIALS_MAX}")
    return Credentials(tuple(every))


def lines_without(text: str, revoked: Collection[Credential]) -> list[str]:
    """Return the lines of the file except those of ``revoked``. Raises `CredentialsInvalid`."""
    lines = enumerate(text.splitlines(keepends=True), start=1)
    return [line for number, line in lines if _credential(number, line) not in revoked]


def rights_text(principal: Principal) -> list[str]:
    """Return the rights of a principal as words of a line."""
    patterns: dict[Right, list[str]] = {}
    for grant in principal.grants:
        patterns.setdefault(grant.right, []).append(grant.pattern)
    return [f"{right}={','.join(of_it)}" for right, of_it in patterns.items()]


def limits_text(principal: Principal) -> list[str]:
    """Return the rate limits of a principal as words of a line."""
    return [f"{name}={rate}" for name in _LIMITS if (rate := getattr(principal.limits, name))]


def _credential(number: int, line: str) -> Credential | None:
    """Return the credential of a line; None for an empty line and a comment."""
    proof, *words = line.split() or [""]
    if not proof or proof.startswith("#"):
        return None
    match = _CREDENTIAL.fullmatch(proof)
    if match is None:
        raise CredentialsInvalid(
            f"line {number} does not begin with NAME:sha256:HEX, 64 hexadecimal digits, or NAME:cert:IDENTITY"
        )
    try:
        principal = _principal(match["name"], words)
    except CredentialsInvalid as error:
        raise CredentialsInvalid(f"line {number} ({match['name']}): {error}") from error
    if match["hash"]:
        return Credential(principal, digest=bytes.fromhex(match["hash"]))
    return Credential(principal, identity=match["identity"])


def _principal(name: str, words: list[str]) -> Principal:
    grants: list[Grant] = []
    limits: dict[str, int] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise CredentialsInvalid(f"{word!r} is not RIGHT=PATTERN, calls_per_s=N or bytes_per_s=N")
        if key in _LIMITS:
            limits[key] = _rate(key, value)
        else:
            grants += _grants(key, value)
    if not grants:
        raise CredentialsInvalid("no right is given; add RIGHT=PATTERN, for example publish=orders,events-* or admin=*")
    if len(grants) > GRANTS_MAX:
        raise CredentialsInvalid(f"{len(grants)} rights are more than {GRANTS_MAX}")
    return Principal(name, tuple(grants), Limits(**limits))


def _grants(key: str, value: str) -> list[Grant]:
    if key not in set(Right):
        raise CredentialsInvalid(f"{key!r} is not a right: use one of {', '.join(Right)}")
    patterns = value.split(",")
    for pattern in patterns:
        if not PATTERN.fullmatch(pattern):
            raise CredentialsInvalid(f"{pattern!r} is not a pattern: use 1 to 128 of a-z, 0-9, '.', '_', '-' and '*'")
    return [Grant(Right(key), pattern) for pattern in patterns]


def _rate(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= RATE_MAX:
        raise CredentialsInvalid(f"{key} = {value!r}: must be 1 to {RATE_MAX}")
    return int(value)


def _checked(made: Credential) -> Credential:
    """Return a credential, or raise `CredentialsInvalid` if the file could not represent it."""
    if not _CREDENTIAL.fullmatch(made.proof):
        name, identity = made.principal.name, made.identity
        what = f"the certificate name {identity!r}" if identity else f"the name {name!r}"
        raise CredentialsInvalid(
            f"{what} does not fit: a name is 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', "
            "and that of a certificate 1 to 255 characters without spaces"
        )
    return made


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
