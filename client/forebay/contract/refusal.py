"""Rejections of the broker, as they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from forebay.contract.violation import Violation
from forebay.errors.reasons import Reason

DOMAIN: Final = "forebay.v1"
DETAILS_KEY: Final = "grpc-status-details-bin"
ACCESS: Final = frozenset({grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED})
"""Statuses of a caller without the right or without a token."""

_NAMES: Final[Mapping[int, str]] = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Status of a rejected request."""

    code: int
    """Number of the gRPC status."""

    message: str = ""
    reason: str = ""
    """`ErrorInfo.reason`; empty without one."""

    domain: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """`ErrorInfo.metadata`."""

    has_retry_delay: bool = False
    """The status has a `RetryInfo`."""

    @property
    def status(self) -> str:
        """Name of the status."""
        return _NAMES.get(self.code, str(self.code))

    def __str__(self) -> str:
        return f"{self.status} / {self.reason or 'no reason'}: {self.message}"

    def check(self, reason: Reason, of_what: str) -> None:
        """Raise `Violation` unless this is the rejection that the table of reasons states."""
        wanted = _NAMES[int(reason.status or 0)]
        if (self.status, self.reason) != (wanted, reason.name):
            raise Violation(f"{of_what}: rejected with {self}; must be {wanted} / {reason.name}")
        if self.domain != DOMAIN:
            raise Violation(f"{of_what}: the domain of the error is {self.domain!r}, must be {DOMAIN!r}")
        named = {name for _, name, _, _ in Formatter().parse(reason.text) if name}
        if missing := sorted(named - set(self.facts)):
            raise Violation(f"{of_what}: the metadata of {reason.name} lacks {', '.join(missing)}")
        if reason.is_retryable and not self.has_retry_delay:
            raise Violation(f"{of_what}: {reason.name} has no RetryInfo")


def of_status(status: status_pb2.Status) -> Refusal:
    """Return the rejection that a ``google.rpc.Status`` states."""
    info, has_retry_delay = error_details_pb2.ErrorInfo(), False
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        has_retry_delay = has_retry_delay or detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR)
    return Refusal(status.code, status.message, info.reason, info.domain, dict(info.metadata), has_retry_delay)


def of_call(error: Any) -> Refusal:
    """Return the rejection that ended a call; one without details has no reason."""
    bare = Refusal(error.code().value[0], error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            try:
                return of_status(status_pb2.Status.FromString(value))
            except DecodeError:
                return bare
    return bare
