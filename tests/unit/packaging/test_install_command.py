"""The command that adds an extra names what is installed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError

import pytest

from forebay import packaging
from forebay.packaging import install_command


class Installed:
    """A distribution with what pip has recorded about its origin."""

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'forebay[arrow]'"),
        ({"url": "file:///a%20b/c", "dir_info": {"editable": True}}, "pip install --editable '/a b/c[arrow]'"),
        ({"url": "file:///src/it", "dir_info": {}}, "pip install '/src/it[arrow]'"),
        (
            {"url": "https://host/it.whl", "archive_info": {}},
            "pip install 'forebay[arrow] @ https://host/it.whl'",
        ),
        (
            {"url": "https://host/it.git", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}},
            "pip install 'forebay[arrow] @ git+https://host/it.git@0123abcd'",
        ),
    ],
)
def test_an_extra_is_added_to_what_is_installed(origin: object, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "distribution", lambda _: Installed(origin))

    assert install_command("arrow") == command


def test_the_command_names_forebay_if_no_distribution_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(packaging, "distribution", missing)

    assert install_command("cli") == "pip install 'forebay[cli]'"
