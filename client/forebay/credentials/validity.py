"""Validity of certificates in PEM, read from their DER (RFC 5280, section 4.1).

    Certificate ::= SEQUENCE { tbsCertificate, ... }
    TBSCertificate ::= SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer, validity, ... }
    Validity ::= SEQUENCE { notBefore Time, notAfter Time }

The standard library reads these fields of authorities only, and of the peer of a connection.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_FIELDS_BEFORE_VALIDITY: Final = 3
"""Serial number, signature and issuer."""
_LONG_FORM: Final = 0x80
_FIRST_CENTURY: Final = 50
"""Two digits of a year below it are of this century."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Start and end of a certificate's validity."""

    begins: datetime
    ends: datetime


def validities(pem: str) -> Iterator[Validity]:
    """Yield the validity of each certificate of a PEM file, in order.

    Raises ``ValueError`` for an invalid certificate.
    """
    for found in _PEM.finditer(pem):
        yield _validity(ssl.PEM_cert_to_DER_cert(found.group()))


def _validity(der: bytes) -> Validity:
    try:
        _, certificate, _ = _element(der, 0)
        _, tbs, _ = _element(certificate, 0)
        tag, _, after = _element(tbs, 0)
        place = after if tag == _VERSION else 0
        for _ in range(_FIELDS_BEFORE_VALIDITY):
            _, _, place = _element(tbs, place)
        tag, validity, _ = _element(tbs, place)
        if tag != _SEQUENCE:
            raise ValueError("the certificate has no validity")
        first_tag, first, after = _element(validity, 0)
        last_tag, last, _ = _element(validity, after)
        return Validity(_time(first_tag, first), _time(last_tag, last))
    except IndexError as error:
        raise ValueError("the certificate is truncated") from error


def _element(data: bytes, place: int) -> tuple[int, bytes, int]:
    """Return tag and content of the element at ``place``, and the position after it."""
    tag, length = data[place], data[place + 1]
    start = place + 2
    if length & _LONG_FORM:
        size = length & ~_LONG_FORM
        length = int.from_bytes(data[start : start + size])
        start += size
    if start + length > len(data):
        raise ValueError("the certificate is truncated")
    return tag, data[start : start + length], start + length


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _FIRST_CENTURY else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
