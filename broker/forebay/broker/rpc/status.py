"""Table of the core's errors and their statuses on the wire; a test checks it both ways.

The client finds the error class by `reason`; code and text are for other readers.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from forebay.broker.core import errors
from forebay.broker.core.errors import BrokerError, Invalid

DOMAIN: Final = "forebay.v1"

CODES: Final[dict[type[BrokerError], grpc.StatusCode]] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.SessionTimedOut: grpc.StatusCode.UNAVAILABLE,
    errors.NumberOutOfRange: grpc.StatusCode.INVALID_ARGUMENT,
    errors.RequestTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidName: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidSetting: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidPage: grpc.StatusCode.INVALID_ARGUMENT,
    errors.PageCorrupt: grpc.StatusCode.INVALID_ARGUMENT,
    errors.RecordTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidPartition: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidRange: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidOpen: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidCredit: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidNack: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidPull: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidInterval: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidPageToken: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidSubscriptionName: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidPosition: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidFilter: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidEpoch: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidSchema: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidLease: grpc.StatusCode.INVALID_ARGUMENT,
    errors.SinkNotFound: grpc.StatusCode.NOT_FOUND,
    errors.EpochNotFound: grpc.StatusCode.NOT_FOUND,
    errors.SubscriptionNotFound: grpc.StatusCode.NOT_FOUND,
    errors.SchemaNotFound: grpc.StatusCode.NOT_FOUND,
    errors.SinkExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.SubscriptionExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.AlreadyCommitted: grpc.StatusCode.ALREADY_EXISTS,
    errors.SinkNotEmpty: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StagedIncomplete: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StagingUnsupported: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DefaultSubscription: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SubscriptionInUse: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OrderingStrict: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SinkReplaced: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SubscriptionReplaced: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SinkFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DiskFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.BrokerFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.MemoryOverloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManyWaiting: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManySinks: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManyStreams: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ReaderTooSlow: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManySubscriptions: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.OffsetTrimmed: grpc.StatusCode.OUT_OF_RANGE,
    errors.OffsetAhead: grpc.StatusCode.OUT_OF_RANGE,
    errors.TokenRefused: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.RateLimited: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.WriterFenced: grpc.StatusCode.ABORTED,
    errors.SequenceGap: grpc.StatusCode.ABORTED,
    errors.SequenceConflict: grpc.StatusCode.ABORTED,
    errors.SchemaChanged: grpc.StatusCode.ABORTED,
    errors.ConsumerReplaced: grpc.StatusCode.ABORTED,
    errors.EpochFenced: grpc.StatusCode.ABORTED,
    errors.EpochConflict: grpc.StatusCode.ABORTED,
    errors.EpochContentConflict: grpc.StatusCode.ABORTED,
    errors.ProducerChanged: grpc.StatusCode.ABORTED,
    errors.Draining: grpc.StatusCode.UNAVAILABLE,
    errors.ReadFailed: grpc.StatusCode.UNAVAILABLE,
    errors.StoreFenced: grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: BrokerError) -> grpc.StatusCode:
    """Return the status code of an error."""
    return CODES[type(error)]


def status_of(error: BrokerError) -> status_pb2.Status:
    """Return the complete status of an error, with its details."""
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.facts)]
    if isinstance(error, Invalid) and error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=str(error))
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(int(error.retry_after_s * 1_000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=code_of(error).value[0], message=str(error))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
