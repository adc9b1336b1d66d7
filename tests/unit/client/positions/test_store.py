"""Stores by URL."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions import store as registry
from forebay.client.positions.store import StoreContext, open_store, redacted, schemes
from forebay.client.positions.stores.memory import MemoryPositions
from tests.support.positions.no_channels import no_channels


def test_a_store_is_opened_by_the_scheme_of_its_url() -> None:
    assert isinstance(open_store("memory:a", channels=no_channels()), MemoryPositions)


def test_stores_of_one_name_in_memory_share_their_documents() -> None:
    one, same, other = (open_store(f"memory:{name}", channels=no_channels()) for name in ("x", "x", "y"))

    one.compare_and_write("key", b"1", None)

    assert same.read("key") is not None
    assert other.read("key") is None


def test_an_unknown_scheme_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidArgument, match=r"must be a URL that begins with .*file:, .*memory:"):
        open_store("ftp://host/path", channels=no_channels())


def test_a_message_about_a_url_holds_no_credentials() -> None:
    with pytest.raises(InvalidArgument) as refused:
        open_store("ftp://secret@host:99/path?sig=secret#secret", channels=no_channels())

    assert "secret" not in str(refused.value)
    assert "secret" not in str(refused.value.facts)
    assert redacted(urlsplit("ftp://user:secret@host:99/path")) == "ftp://host:99/path"


@pytest.mark.parametrize(
    "url", ["postgresql://user:secret@host/db", "postgresql://user:sec/ret@host/db", "postgresql://[secret/db"]
)
def test_a_url_with_a_password_or_of_no_form_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"URL without|credentials|SCHEME") as refused:
        open_store(url, channels=no_channels())

    assert "sec" not in f"{refused.value} {refused.value.facts}"


def test_a_context_shows_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[StoreContext] = []
    monkeypatch.setattr(MemoryPositions, "opened", seen.append, raising=False)
    entry = EntryPoint("cellar", "forebay.client.positions.stores.memory:MemoryPositions.opened", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])

    open_store("cellar:z?key=secret", channels=no_channels())

    assert "secret" not in repr(seen[0])


def test_every_store_that_the_guide_names_is_opened_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "billing")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    guide = (Path(__file__).parents[4] / "docs" / "how-to" / "resume-a-consumer.md").read_text(encoding="utf-8")
    urls = [
        url
        for line in guide.splitlines()
        if line.startswith("| `")
        for url in re.findall(r"`([a-z0-9-]+:[^` ]*)`", line)
    ]

    assert {urlsplit(url).scheme for url in urls} == set(registry.BUILT_IN)
    for url in urls:
        if not url.startswith("file:"):  # it would create the directory
            open_store(url, channels=no_channels()).close()


def test_a_package_adds_a_store_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("cellar", "forebay.client.positions.stores.memory:open_store", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.GROUP else [])

    assert "cellar" in schemes()
    assert isinstance(open_store("cellar:z", channels=no_channels()), MemoryPositions)


def test_a_store_whose_package_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "s3", ("forebay_no_such_module:open_store", "arrow"))

    with pytest.raises(InvalidArgument, match=r"forebay_no_such_module is not installed: .*\[arrow\]"):
        open_store("s3://bucket/prefix", channels=no_channels())
