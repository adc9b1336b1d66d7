"""Conversion of gRPC statuses to errors.

The status of a call and an error inside a stream are the same ``google.rpc.Status``. Their text is escaped for printing
and logging, because it may quote foreign input, and a proxy may answer instead of the broker.
"""

from __future__ import annotations

from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from forebay.client.errors import ForebayError, error_for
from forebay.text import visible

DETAILS_KEY: Final = "grpc-status-details-bin"
RETRY_AFTER_MAX_S: Final = 60.0
"""Upper bound of the honoured retry delay, so that one wrong answer cannot stall a client."""


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
