"""A server that is missing: skipped on a laptop, failed in CI."""

from __future__ import annotations

import pytest

from tests.support.stores.server import required


def test_a_missing_server_skips_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOREBAY_REQUIRE_STORES", raising=False)

    with pytest.raises(pytest.skip.Exception, match="make test-stores"):
        required("Cassandra", None)


def test_a_missing_server_fails_its_tests_where_all_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_REQUIRE_STORES", "1")

    with pytest.raises(pytest.fail.Exception, match="Cassandra was not found"):
        required("Cassandra", None)
