"""Expectations of errors by their reason, for errors without a class of their own."""

from __future__ import annotations

import pytest
from _pytest.raises import RaisesExc

from forebay.broker.core.errors import BrokerError
from forebay.client.errors import ForebayError
from forebay.errors.reasons import Reason


def refusal(reason: Reason, *, match: str | None = None) -> RaisesExc[BrokerError]:
    """Expect that the broker refuses for that reason."""
    return pytest.raises(BrokerError, match=match, check=lambda error: error.reason is reason)


def failure(reason: Reason, *, match: str | None = None) -> RaisesExc[ForebayError]:
    """Expect that the client fails for that reason."""
    return pytest.raises(ForebayError, match=match, check=lambda error: error.reason == reason.name)
