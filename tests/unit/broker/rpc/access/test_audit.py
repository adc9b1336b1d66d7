"""The audit log has one line per managing call, bounds refusals, and cannot be forged."""

from __future__ import annotations

import logging

import pytest

from forebay.broker.core.errors import PermissionDenied, TokenRefused
from forebay.broker.rpc.access.audit import INTERVAL_S, KINDS_MAX, SHOWN_MAX, Audit, Caller
from forebay.text import fields_of

PEER = "ipv4:192.0.2.1:1"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audit(clock: Clock, caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO, logger="forebay.audit")
    return Audit(clock)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "forebay.audit"]


def test_a_managing_call_names_principal_method_sinks_outcome_and_peer(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    audit.managed(Caller("ops", PEER), "/forebay.v1.SinkService/PurgeSink", ["orders"], "OK")

    assert lines(caplog) == [
        "call principal='ops' method=/forebay.v1.SinkService/PurgeSink sinks='orders' outcome=OK peer=ipv4:192.0.2.1:1"
    ]


def test_the_fields_of_an_event_are_the_values_without_quotes(
    audit: Audit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    audit.managed(Caller("anonymous", PEER), "/m", ["w", "x"], "OK")
    for _ in range(2):
        audit.refused(Caller("ops", PEER), "/m", PermissionDenied("ops", "publish", "n" * SHOWN_MAX))
    clock.now_s += INTERVAL_S
    audit.refused(Caller("unknown", PEER), "/m", TokenRefused("missing"))

    managed, refused, again, _ = (fields_of(record) for record in caplog.records)
    detail = str(PermissionDenied("ops", "publish", "n" * SHOWN_MAX))[:SHOWN_MAX]
    assert managed == {"principal": "anonymous", "method": "/m", "sinks": "w,x", "outcome": "OK", "peer": PEER}
    assert refused == {
        "reason": "PERMISSION_DENIED",
        "principal": "ops",
        "method": "/m",
        "detail": detail,
        "peer": PEER,
    }
    assert again == {"count": 1, "reason": "PERMISSION_DENIED", "principal": "ops", "method": "/m"}


def test_a_name_with_a_line_break_stays_on_one_line(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    audit.managed(Caller("ops", PEER), "/m", ["orders\ncall principal='root' \u202e\x1b[2J"], "INVALID_SINK_NAME")

    (line,) = lines(caplog)
    assert line.isascii()
    assert line.isprintable()


def test_repeated_refusals_are_one_line_at_once_and_one_with_their_number(
    audit: Audit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(500):
        audit.refused(Caller("unknown", PEER), "/m", TokenRefused("missing"))
    clock.now_s += INTERVAL_S
    audit.refused(Caller("ops", PEER), "/m", PermissionDenied("ops", "publish", "orders"))

    first, again, other = lines(caplog)
    assert first.startswith("refused reason=TOKEN_REFUSED principal='unknown' method=/m ")
    assert again == "refused again count=499 reason=TOKEN_REFUSED principal='unknown' method=/m"
    assert other.startswith("refused reason=PERMISSION_DENIED principal='ops'")


def test_kinds_of_refusals_beyond_a_bound_share_a_line(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(KINDS_MAX * 3):
        audit.refused(Caller(f"p{number}", PEER), "/m", PermissionDenied("p", "publish"))

    assert len(lines(caplog)) == KINDS_MAX + 1
