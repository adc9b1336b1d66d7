"""Every refusal of the core has one status on the wire and one reason, and the protos say which reasons there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest
from google.rpc import error_details_pb2

from forebay.broker.core import errors
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.status import CODES, DOMAIN, code_of, status_of
from forebay.client import errors as client_errors

PROTOS: Final = Path(__file__).resolve().parents[2] / "protos" / "forebay" / "v1"
BASES: Final = {BrokerError, errors.Invalid, errors.Exhausted}
"""Never raised themselves."""

SAMPLES: Final[dict[type[BrokerError], Callable[[], BrokerError]]] = {
    errors.InvalidRequest: lambda: errors.InvalidRequest("wrong"),
    errors.SessionTimedOut: lambda: errors.SessionTimedOut("c", 15.0),
    errors.NumberOutOfRange: lambda: errors.NumberOutOfRange("offset", 9, 0, 8),
    errors.RequestTooLarge: lambda: errors.RequestTooLarge("or more records", 9, 8, field="records"),
    errors.InvalidName: lambda: errors.InvalidName("wrong", field="name"),
    errors.InvalidSetting: lambda: errors.InvalidSetting("partitions", 0, "1 to 1024"),
    errors.InvalidPage: lambda: errors.InvalidPage("wrong", field="body"),
    errors.PageCorrupt: lambda: errors.PageCorrupt(1, 2),
    errors.RecordTooLarge: lambda: errors.RecordTooLarge(9, 8, "a record"),
    errors.InvalidPartition: lambda: errors.InvalidPartition(4, 4),
    errors.InvalidRange: lambda: errors.InvalidRange("wrong", field="ranges"),
    errors.InvalidOpen: lambda: errors.InvalidOpen("wrong", field="open"),
    errors.InvalidCredit: lambda: errors.InvalidCredit("wrong", field="credit"),
    errors.InvalidNack: lambda: errors.InvalidNack("wrong", field="retry.delay"),
    errors.InvalidPull: lambda: errors.InvalidPull("wrong", field="request"),
    errors.InvalidInterval: lambda: errors.InvalidInterval("wrong", field="interval"),
    errors.InvalidFilter: lambda: errors.InvalidFilter("wrong", field="filter.reason"),
    errors.InvalidPageToken: lambda: errors.InvalidPageToken("wrong", field="page_token"),
    errors.InvalidSubscriptionName: lambda: errors.InvalidSubscriptionName("a b"),
    errors.InvalidPosition: lambda: errors.InvalidPosition("wrong", field="to"),
    errors.InvalidSchema: lambda: errors.InvalidSchema("wrong", field="arrow_schema"),
    errors.SinkNotFound: lambda: errors.SinkNotFound("orders"),
    errors.SubscriptionNotFound: lambda: errors.SubscriptionNotFound("orders", "second"),
    errors.SchemaNotFound: lambda: errors.SchemaNotFound("orders", 3, 2),
    errors.SinkExists: lambda: errors.SinkExists("orders", "partitions is 1, asked is 2"),
    errors.SubscriptionExists: lambda: errors.SubscriptionExists("orders", "second"),
    errors.DefaultSubscription: lambda: errors.DefaultSubscription("orders"),
    errors.InvalidLease: lambda: errors.InvalidLease("wrong", field="holder"),
    errors.OrderingStrict: lambda: errors.OrderingStrict("orders"),
    errors.SinkReplaced: lambda: errors.SinkReplaced("orders", "1f2e3d", "4c5b6a"),
    errors.SubscriptionReplaced: lambda: errors.SubscriptionReplaced("orders", "second", "1f2e3d", "4c5b6a"),
    errors.SubscriptionInUse: lambda: errors.SubscriptionInUse("orders", "second", 0, "c"),
    errors.SinkNotEmpty: lambda: errors.SinkNotEmpty("orders", 3),
    errors.SinkFull: lambda: errors.SinkFull("orders", "max_disk_cache", 10, 10),
    errors.DiskFull: lambda: errors.DiskFull(1, 2),
    errors.BrokerFull: lambda: errors.BrokerFull(1, 2),
    errors.MemoryOverloaded: lambda: errors.MemoryOverloaded(1, 2),
    errors.TooManyWaiting: lambda: errors.TooManyWaiting(1, 2),
    errors.TooManySinks: lambda: errors.TooManySinks("sinks", 2),
    errors.TooManyStreams: lambda: errors.TooManyStreams(2),
    errors.ReaderTooSlow: lambda: errors.ReaderTooSlow(2),
    errors.TooManySubscriptions: lambda: errors.TooManySubscriptions("orders", 100),
    errors.OffsetTrimmed: lambda: errors.OffsetTrimmed(1, 5, 9),
    errors.OffsetAhead: lambda: errors.OffsetAhead(10, 5, 9),
    errors.TokenRefused: lambda: errors.TokenRefused("missing"),
    errors.PermissionDenied: lambda: errors.PermissionDenied("spark", "publish", "orders"),
    errors.RateLimited: lambda: errors.RateLimited("spark", "calls_per_s", 10, 2.5),
    errors.WriterFenced: lambda: errors.WriterFenced("w", 1, 2),
    errors.SequenceGap: lambda: errors.SequenceGap(0, 5, 4),
    errors.SequenceConflict: lambda: errors.SequenceConflict(0, 5),
    errors.SchemaChanged: lambda: errors.SchemaChanged("orders", 1, 2),
    errors.ConsumerReplaced: lambda: errors.ConsumerReplaced("c"),
    errors.InvalidEpoch: lambda: errors.InvalidEpoch("wrong", field="commits"),
    errors.EpochNotFound: lambda: errors.EpochNotFound("p", 3, 2),
    errors.AlreadyCommitted: lambda: errors.AlreadyCommitted("p", 3),
    errors.StagedIncomplete: lambda: errors.StagedIncomplete("orders", "t", "nothing of it is staged"),
    errors.StagingUnsupported: lambda: errors.StagingUnsupported("orders", "it is in MEMORY mode"),
    errors.EpochFenced: lambda: errors.EpochFenced("p", 3, "a newer run has begun"),
    errors.EpochConflict: lambda: errors.EpochConflict("p", 3, "other tokens"),
    errors.EpochContentConflict: lambda: errors.EpochContentConflict("p", 3, stored=(1, "k:a"), sent=(2, "k:b")),
    errors.ProducerChanged: lambda: errors.ProducerChanged("orders", "w", "p", "q"),
    errors.Draining: errors.Draining,
    errors.ReadFailed: lambda: errors.ReadFailed("Input/output error"),
    errors.StoreFenced: lambda: errors.StoreFenced("sync failed"),
}
"""One of each."""

CODE_OF: Final = {
    errors.Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    errors.Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""What whole families share."""


def raised(base: type[BrokerError] = BrokerError) -> Iterator[type[BrokerError]]:
    """Every error that can be raised."""
    if base not in BASES:
        yield base
    for kind in base.__subclasses__():
        yield from raised(kind)


KINDS: Final[list[type[BrokerError]]] = sorted(SAMPLES, key=lambda kind: kind.__name__)


def test_every_error_of_the_core_has_a_code_and_every_code_an_error() -> None:
    assert set(CODES) == set(raised())


def test_every_error_has_a_sample_here() -> None:
    assert set(SAMPLES) == set(raised())


def test_no_two_errors_share_a_reason() -> None:
    reasons = [kind.reason for kind in raised()]

    assert sorted(reasons) == sorted(set(reasons))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_a_status_names_code_reason_domain_and_facts(kind: type[BrokerError]) -> None:
    error = SAMPLES[kind]()

    status = status_of(error)

    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (kind.reason, DOMAIN, error.facts)
    assert status.code == code_of(error).value[0] == CODES[kind].value[0]
    assert status.message == str(error)
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*[A-Z0-9]", info.reason)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_a_family_of_errors_shares_its_code(kind: type[BrokerError]) -> None:
    expected = [code for base, code in CODE_OF.items() if issubclass(kind, base)]

    assert not expected or CODES[kind] == expected[0]


def test_what_may_be_tried_again_says_when() -> None:
    retried = {kind for kind in SAMPLES if SAMPLES[kind]().retry_after_s is not None}

    for kind in SAMPLES:
        found = [each for each in status_of(SAMPLES[kind]()).details if each.Is(error_details_pb2.RetryInfo.DESCRIPTOR)]
        assert len(found) == (kind in retried)
    assert retried == {
        errors.SinkFull,
        errors.DiskFull,
        errors.BrokerFull,
        errors.MemoryOverloaded,
        errors.TooManyWaiting,
        errors.TooManyStreams,
        errors.ReaderTooSlow,
        errors.RateLimited,
        errors.Draining,
        errors.SessionTimedOut,
        errors.ReadFailed,
        errors.StoreFenced,
    }


def test_a_wrong_field_is_named_in_a_bad_request() -> None:
    status = status_of(errors.InvalidSetting("ack_deadline_us", 1, "100 ms to 24 h"))

    violation = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(violation)
    assert [found.field for found in violation.field_violations] == ["ack_deadline_us"]


def test_every_reason_is_documented_in_the_protos() -> None:
    comments = "\n".join(
        line for path in sorted(PROTOS.glob("*.proto")) for line in path.read_text().splitlines() if "//" in line
    )
    documented = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", comments))

    assert {kind.reason for kind in raised()} - documented == set()


def test_every_reason_that_the_protos_document_exists() -> None:
    services = [path.read_text() for path in sorted(PROTOS.glob("*_service.proto"))]
    listed = {reason for text in services for reason in _reasons(text)}

    assert listed - {kind.reason for kind in raised()} == set()


def _reasons(text: str) -> Iterator[str]:
    """Names that stand where a service's or an rpc's comment lists a status and its reasons."""
    codes = {code.name for code in grpc.StatusCode}
    for line in text.splitlines():
        comment = line.strip()
        if comment.startswith("//") and any(f"`{code}`" in comment for code in codes):
            yield from (found for found in re.findall(r"`([A-Z][A-Z0-9_]+)`", comment) if found not in codes)


def test_the_client_has_a_class_of_its_own_for_every_reason() -> None:
    assert {kind.reason for kind in raised()} - set(client_errors.BY_REASON) == set()
