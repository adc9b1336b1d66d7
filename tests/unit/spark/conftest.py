"""A broker in this process for the tests of the Spark parts that talk to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.client import testing
from forebay.client.testing import TestBroker


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    """Run a broker for one test."""
    with testing.broker() as running:
        yield running
