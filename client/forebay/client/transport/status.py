"""Conversion of gRPC statuses to errors.

The status of a call and an error inside a stream are the same ``google.rpc.Status``. Their text is escaped for printing
and logging, because it may quote foreign input, and a proxy may answer instead of the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from forebay.client.errors import BrokerFault, ForebayError
from forebay.errors.reasons import Reason, reason_of
from forebay.errors.status import Status
from forebay.text import visible

DETAILS_KEY: Final = "grpc-status-details-bin"
RETRY_AFTER_MAX_S: Final = 60.0
"""Upper bound of the honoured retry delay, so that one wrong answer cannot stall a client."""


def classes(kind: type[ForebayError] = ForebayError) -> list[type[ForebayError]]:
    """Return a class of errors and those below it."""
    return [kind, *(below for child in kind.__subclasses__() for below in classes(child))]


_BY_STATUS: Final[Mapping[int, type[ForebayError]]] = {
    status: kind for kind in classes() if "statuses" in vars(kind) for status in kind.statuses
}
_BY_REASON: Final[Mapping[Reason, type[ForebayError]]] = {
    reason: kind for kind in classes() if "reasons" in vars(kind) for reason in kind.reasons
}
_UNSTATED: Final[Mapping[int, Reason]] = {
    Status.PERMISSION_DENIED: Reason.PERMISSION_DENIED,
    Status.UNAUTHENTICATED: Reason.TOKEN_REFUSED,
}
"""Reasons for statuses of a proxy, which states none, where the class has several."""


def class_of(reason: Reason) -> type[ForebayError]:
    """Return the class of a reason: one of its own, otherwise that of its status."""
    return _BY_REASON.get(reason) or _BY_STATUS[reason.status or Status.DATA_LOSS]


def error_for(
    code: int,
    reason: str,
    message: str,
    *,
    facts: Mapping[str, str] | None = None,
    retry_after_s: float | None = None,
) -> ForebayError:
    """Return the error for a status: by its reason, otherwise by its code."""
    known = reason_of(reason) if reason else _UNSTATED.get(code)
    kind = _BY_STATUS.get(code, BrokerFault) if known is None else class_of(known)
    return kind(message, reason=known or reason, facts=facts, retry_after_s=retry_after_s)


def from_status(status: status_pb2.Status) -> ForebayError:
    """Return the error for a ``google.rpc.Status``."""
    reason = ""
    facts: dict[str, str] = {}
    retry_after_s: float | None = None
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo.FromString(detail.value)
            reason = info.reason
            facts.update(info.metadata)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
            retry_after_s = min(max(delay.seconds + delay.nanos / 1e9, 0.0), RETRY_AFTER_MAX_S)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            for violation in error_details_pb2.BadRequest.FromString(detail.value).field_violations:
                facts.setdefault("field", violation.field)
    return error_for(status.code, reason, visible(status.message), facts=facts, retry_after_s=retry_after_s)


def from_call(failure: grpc.RpcError) -> ForebayError:
    """Return the error that ended a call. ``failure`` is the exception of gRPC, which is also the call."""
    if not hasattr(failure, "trailing_metadata"):
        return error_for(2, "", visible(str(failure)))
    call = cast("grpc.Call", failure)
    code = call.code()
    for key, value in call.trailing_metadata() or ():
        if key != DETAILS_KEY:
            continue
        try:
            status = status_pb2.Status.FromString(value if isinstance(value, bytes) else value.encode())
        except DecodeError:
            break
        return from_status(status)
    return error_for(code.value[0], "", visible(call.details() or code.name))
