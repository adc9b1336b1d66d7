"""URL and credentials of the store in Azure Blob Storage; tests/stores has the tests on a server."""

from __future__ import annotations

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionStoreError
from forebay.client.positions.store import open_store
from tests.support.positions.no_channels import no_channels


@pytest.fixture(autouse=True)
def _without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTION_STRING", "ACCOUNT_NAME", "ACCOUNT_KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.mark.parametrize("url", ["azure-blob:///prefix", "azure-blob://account@container/prefix"])
def test_a_url_without_a_container_or_with_more_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="azure-blob://CONTAINER/PREFIX"):
        open_store(url, channels=no_channels())


@pytest.mark.parametrize("seconds", [1, 14, 61, -1])
def test_a_lease_of_a_duration_that_the_service_does_not_know_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidArgument, match=r"store\.lease_s"):
        open_store(f"azure-blob://container/prefix?lease_s={seconds}", channels=no_channels())


def test_without_an_account_the_error_names_the_variables() -> None:
    with pytest.raises(PositionStoreError, match="set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME"):
        open_store("azure-blob://container/prefix", channels=no_channels())


def test_a_connection_string_of_another_form_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "abc-def")

    with pytest.raises(PositionStoreError, match="another form") as refused:
        open_store("azure-blob://container/prefix", channels=no_channels())

    assert "abc-def" not in str(refused.value)
