"""From a gRPC status to an error of ours.

The status of a call and the refusal inside a stream are the same ``google.rpc.Status``; both end here. Their text is
made safe to print and to log: it quotes what others wrote, and whatever stands before a broker can answer in its place.
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
"""Longest wish to wait that is honoured: a client must not stand still because of one damaged or hostile answer."""


def from_status(status: status_pb2.Status) -> ForebayError:
    """Return the error that a ``google.rpc.Status`` stands for."""
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
    """Return the error that ended a call. ``failure`` is what grpc raised: it is also the call."""
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
