"""URL of the stores of objects; tests/stores has the tests on servers."""

from __future__ import annotations

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions.store import open_store
from tests.support.positions.no_channels import no_channels


@pytest.mark.parametrize("url", ["s3:///prefix", "gs://user@bucket/prefix", "az://container:80/prefix"])
def test_a_url_without_a_bucket_or_with_more_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="://BUCKET/PREFIX"):
        open_store(url, channels=no_channels())


def test_an_option_of_another_service_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="named for s3: only"):
        open_store("gs://bucket/prefix?region=eu", channels=no_channels())


def test_a_store_and_its_library_show_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "abc-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "abc-def")

    store = open_store("s3://bucket/prefix?region=eu-west-1", channels=no_channels())

    assert "abc-def" not in f"{store!r} {vars(store)!r}"
