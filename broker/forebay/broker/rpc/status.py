"""Errors of the core as statuses on the wire.

The client finds the error class by `reason`; code and text are for other readers.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from forebay.broker.core.errors import BrokerError

DOMAIN: Final = "forebay.v1"
_CODES: Final = {int(code.value[0]): code for code in grpc.StatusCode}


def code_of(error: BrokerError) -> grpc.StatusCode:
    """Return the status code of an error."""
    assert error.reason.status is not None, "reasons of the broker have a status"
    return _CODES[error.reason.status]


def status_of(error: BrokerError) -> status_pb2.Status:
    """Return the complete status of an error, with its details."""
    info = error_details_pb2.ErrorInfo(reason=error.reason.name, domain=DOMAIN, metadata=error.facts)
    details: list[Message] = [info]
    if "field" in error.facts:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.facts["field"], description=str(error))
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(int(error.retry_after_s * 1_000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=error.reason.status, message=str(error))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
