"""Rejections are compared with the table of reasons: status, reason, domain, facts and delay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.status import status_of
from forebay.contract.refusal import of_status
from forebay.contract.violation import Violation
from forebay.errors.reasons import Reason

FULL = BrokerError(Reason.SINK_FULL, "", sink="s", limit="max_disk_cache", bound=2, used=2)


def test_a_status_of_the_broker_is_what_the_table_states() -> None:
    found = of_status(status_of(FULL))

    found.check(Reason.SINK_FULL, "an append")
    assert (found.status, found.reason, found.domain) == ("RESOURCE_EXHAUSTED", "SINK_FULL", "forebay.v1")
    assert found.facts["limit"] == "max_disk_cache"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"code": 3}, "rejected with INVALID_ARGUMENT / SINK_FULL"),
        ({"reason": ""}, "rejected with RESOURCE_EXHAUSTED / no reason"),
        ({"reason": "DISK_FULL"}, "must be RESOURCE_EXHAUSTED / SINK_FULL"),
        ({"domain": "other"}, "the domain of the error is 'other'"),
        ({"facts": {"sink": "s"}}, "the metadata of SINK_FULL lacks bound, limit, used"),
        ({"has_retry_delay": False}, "SINK_FULL has no RetryInfo"),
    ],
)
def test_each_deviation_is_a_violation(change: dict[str, object], said: str) -> None:
    found = replace(of_status(status_of(FULL)), **change)  # type: ignore[arg-type]  # fields by name

    with pytest.raises(Violation, match=said):
        found.check(Reason.SINK_FULL, "an append")
